"""The lab's clean-up. k3s itself is removed only when asked."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import transient, trusted
from hami_k3s.facts.hami import fullname
from hami_k3s.facts.helm import KUBECONFIG
from hami_k3s.facts.kubernetes import CACHE
from hami_k3s.facts.reset import ANNOTATIONS, Reset
from hami_k3s.operations.binary import path
from hami_k3s.proof.pods import OWNER
from hami_k3s.settings import Settings
from hami_k3s.templating import render
from hami_k3s.waits import fail


@operation()
def hami(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Remove verify's pods, HAMi's release and what helm does not own: Secret, Lease, node annotations, label.

    + settings: the host's settings

    **Example:**

    .. code:: python

        reset.hami(name="HAMi is gone", settings=settings)
    """
    where = {"release": settings.hami_release, "namespace": settings.hami_namespace}
    state = trusted.read(host, Reset, **where, owner=OWNER)
    if not state.api and state.k3s and not settings.reset_k3s:
        reason = "k3s does not answer, so HAMi cannot be removed from it: `systemctl status k3s` says why. "
        yield FunctionCommand(
            fail, (f"{reason}To remove k3s with everything in it: --data reset_k3s=true",), {}
        )
        return
    if not state.api or not state.hami:
        host.noop("nothing of HAMi is there")
        return
    script = render(
        "scripts/reset-hami.sh",
        **where,
        helm=path("helm", settings.helm_version),
        kubeconfig=KUBECONFIG,
        cache=CACHE,
        owner=OWNER,
        fullname=fullname(settings.hami_release),
        annotations=[f"{name}-" for name in ANNOTATIONS],
        limit=settings.hami_ready_timeout,
    )
    limit = settings.hami_ready_timeout + 120
    yield FunctionCommand(
        transient.work, ("reset-hami", "Removing HAMi", script, limit, "hami_ready_timeout"), {}
    )


@operation()
def k3s(settings: Settings, remove: bool) -> Generator[PyinfraCommand]:
    """
    Remove k3s with all its data, if asked.

    + settings: the host's settings
    + remove: really do it

    **Example:**

    .. code:: python

        reset.k3s(name="k3s is gone", settings=settings, remove=True)
    """
    if not remove:
        host.noop("k3s stays (reset_k3s is false)")
        return
    where = {"release": settings.hami_release, "namespace": settings.hami_namespace}
    if not trusted.read(host, Reset, **where, owner=OWNER).k3s:
        host.noop("k3s is not there")
        return
    script = "/usr/local/bin/k3s-uninstall.sh"
    yield FunctionCommand(transient.work, ("reset-k3s", "Removing k3s", script, 300, "reset_k3s"), {})
