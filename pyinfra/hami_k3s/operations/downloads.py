"""What later steps will fetch, begun as soon as the host may be changed: it arrives while apt and k3s are at work."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster, transient, trusted
from hami_k3s.facts.binary import Binary
from hami_k3s.facts.helm import Release
from hami_k3s.operations import binary, helm
from hami_k3s.releases import architecture
from hami_k3s.releases.origin import Origin
from hami_k3s.settings import Settings


@operation()
def begin(settings: Settings, origin: Origin) -> Generator[PyinfraCommand]:
    """
    Begin to fetch k3s, helm and HAMi's chart, where they will be needed. The steps that need them wait for them, and
    say what went wrong. Of a bundle nothing is fetched: its files are sent by those steps.

    + settings: the host's settings
    + origin: lock, bundle and proxies

    **Example:**

    .. code:: python

        downloads.begin(name="Begun", settings=settings, origin=origin.of(settings))
    """
    steps = [] if origin.bundle is not None else list(_wanted(settings, origin))
    if not steps:
        host.noop("nothing is to be fetched")
        return
    yield FunctionCommand(transient.begin, tuple(steps), {})


def _wanted(settings: Settings, origin: Origin) -> Generator[transient.Step]:
    agent = cluster.is_agent(host)
    for tool in (binary.k3s(settings), *([] if agent else [binary.helm(settings)])):
        state = trusted.read(host, Binary, **tool.places)
        arch = architecture(state.machine) or "amd64"
        locked = origin.sha256(tool.name, arch)
        different = binary.differences(state, tool.name, tool.version, True, locked)
        if locked is not None and tool.places["versioned"] in {one.what for one in different}:
            yield binary.download(tool, arch, origin, locked)
    if agent or not cluster.elected(host):
        return
    release = trusted.read(host, Release, release=settings.hami_release, namespace=settings.hami_namespace)
    if not helm.settled(release, settings, origin):
        yield helm.chart(settings, origin)
