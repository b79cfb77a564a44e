"""The HAMi release: upgraded only when chart, values or scheduler tag differ; a cut-off earlier run is recovered."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster, releases, transient, trusted
from hami_k3s.chart import values
from hami_k3s.difference import NOT_THERE, Difference, leaves, noted
from hami_k3s.facts.hami import fullname
from hami_k3s.facts.helm import AT_WORK, KUBECONFIG, Release, ReleaseState
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.facts.kubernetes import CACHE
from hami_k3s.operations import bundle
from hami_k3s.operations.binary import path
from hami_k3s.releases.origin import STORE, Origin, in_bundle
from hami_k3s.settings import Settings
from hami_k3s.templating import render
from hami_k3s.upgrade_plan import STAYS, strategy
from hami_k3s.waits import Look, fail, until

CHART = "helm-chart"
PENDING = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling")


def recovery(state: ReleaseState) -> str:
    """What must come before `helm upgrade --install`: "" nothing, "uninstall" or "rollback"."""
    if state.status in ("pending-install", "uninstalling"):
        return "uninstall"
    if state.status in ("pending-upgrade", "pending-rollback"):
        return "rollback" if state.good_revision else "uninstall"
    return ""


def differences(state: ReleaseState, version: str, wanted: Mapping[str, Any]) -> list[Difference]:
    """Of the release's status, chart and user values.

    + version: the chart's
    + wanted: the values
    """
    if state.status in (None, "absent"):
        return [Difference("release", "hami", NOT_THERE if state.status else "unknown", version)]
    found = []
    if state.status != "deployed":
        found.append(Difference("release", "status", str(state.status), "deployed"))
    if state.chart_version != version:
        found.append(Difference("release", "chart", state.chart_version or "unknown", version))
    return found + [
        Difference("value", key, _shown(key, here), _shown(key, there))
        for key, here, there in leaves(state.values, wanted)
    ]


def _shown(key: str, value: object) -> str:
    """One value on one line; what is called a secret stays one."""
    if value is None:
        return NOT_THERE
    if re.search("password|token|secret|credential", key, re.IGNORECASE):
        return "(not shown)"
    return json.dumps(value, sort_keys=True)[:80]


@operation()
def hami(settings: Settings, origin: Origin | None = None) -> Generator[PyinfraCommand]:
    """
    HAMi's release with this project's values and the user's merged over them.

    + settings: the host's settings
    + origin: lock, bundle and proxies

    **Example:**

    .. code:: python

        helm.hami(name="HAMi", settings=settings)
    """
    if cluster.executing(host) and not cluster.elected(host):
        host.noop("another server of the cluster installs HAMi")
        return
    arguments = {"release": settings.hami_release, "namespace": settings.hami_namespace}
    origin = origin or Origin()
    if transient.begun(host, CHART):
        # Fetched ahead: a helm is at work for it, and what it fetches is needed now.
        yield FunctionCommand(transient.work, tuple(chart(settings, origin)), {})
        state = host.get_fact(Release, **arguments)
    else:
        state = trusted.read(host, Release, **arguments)
    if state.status in PENDING or state.working:
        # Somebody's helm may still be at work. After this command the state is read again.
        noted(host, [Difference("release", settings.hami_release, str(state.status), "deployed")])
        yield FunctionCommand(wait_for_helm, (arguments, settings.hami_ready_timeout), {})
        state = host.get_fact(Release, **arguments)
    wanted = _values(state, settings, origin)
    if wanted is None or state.status is None:
        reason = state.error or "the API server does not answer"
        noted(
            host,
            [Difference("release", settings.hami_release, f"unknown: {reason}", settings.hami_chart_version)],
        )
        yield FunctionCommand(fail, (f"helm cannot be used: {reason}. `journalctl -u k3s` says why",), {})
        return
    if not noted(host, differences(state, settings.hami_chart_version, wanted)):
        host.noop(f"HAMi {settings.hami_chart_version} is deployed with these values")
        return
    sent = ""
    if origin.bundle is not None:
        name = in_bundle("hami_chart_repository", f"hami-{settings.hami_chart_version}.tgz", "")
        sent = f"{STORE}/{name}"
        yield FunctionCommand(bundle.send, (origin.bundle, [name]), {})
    script = render(
        "scripts/helm-release.sh",
        **arguments,
        **_chart_values(settings, sent),
        kubeconfig=KUBECONFIG,
        cache=CACHE,
        at_work=AT_WORK,
        values_json=json.dumps(wanted, indent=1, sort_keys=True),
        recover=recovery(state),
        status=state.status,
        good_revision=state.good_revision,
        # helm waits for pods that nobody replaces
        scheduler=f"{fullname(settings.hami_release)}-scheduler" if strategy(wanted) == STAYS else "",
        scheduler_hint="An image that cannot be pulled: hami_scheduler_registry, hami_values",
    )
    # helm has its own limit; the unit's is for a helm that hangs, the recovery and the chart's download
    limit = 3 * settings.hami_ready_timeout + 120
    what = f"HAMi {settings.hami_chart_version}"
    yield FunctionCommand(
        transient.work, ("helm", what, origin.prelude + script, limit, "hami_ready_timeout"), {}
    )


def _values(state: ReleaseState, settings: Settings, origin: Origin) -> dict[str, Any] | None:
    """The release's values for the cluster as it is, None when it does not answer."""
    if state.server_version is None or state.nodes is None or state.servers is None:
        return None
    digests = origin.lock.digests if origin.lock else {}
    return values(settings, state.server_version, state.servers, state.nodes, digests)


def settled(state: ReleaseState, settings: Settings, origin: Origin) -> bool:
    """Is the release deployed as these settings want it? A cluster that does not answer is not."""
    wanted = _values(state, settings, origin)
    return wanted is not None and not differences(state, settings.hami_chart_version, wanted)


def _chart_values(settings: Settings, sent: str = "") -> dict[str, Any]:
    """For the part of both scripts that fetches the chart; `sent`: its path on the host when a bundle brought it."""
    return {
        "helm": path("helm", settings.helm_version),
        "chart_file": f"{LIBRARY}/charts/hami-{settings.hami_chart_version}-{settings.chart_sha256[:12]}.tgz",
        "repository": settings.hami_chart_repository,
        "chart_words": releases.chart_words(settings.hami_chart_repository),
        "chart_version": settings.hami_chart_version,
        "chart_sent": sent,
        "judge": settings.chart_judge,
        "chart_sha256": settings.chart_sha256,
        "limit": settings.hami_ready_timeout,
    }


def chart(settings: Settings, origin: Origin) -> transient.Step:
    """Fetch the chart as soon as helm is there."""
    script = render(
        "scripts/helm-chart.sh", **_chart_values(settings), helm_unit="hami-k3s-helm-download.service"
    )
    limit = settings.helm_download_timeout + settings.hami_ready_timeout
    what = f"Chart {settings.hami_chart_version}"
    return transient.Step(CHART, what, origin.prelude + script, limit, "hami_ready_timeout")


def wait_for_helm(state: State, host: Host, arguments: dict[str, str], limit: int) -> bool:
    """Wait for a helm that may be at work: ours from an interrupted run, or another operator's. True when none is."""

    def look() -> Look:
        now = host.get_fact(Release, **arguments)
        if now.working:
            return Look("wait", f"a helm process is at work on the host, release {now.status}")
        if now.status not in PENDING:
            return Look("done", f"release {now.status}")
        if now.cut_off or now.age_s is None or now.age_s >= limit:
            return Look("done", f"release {now.status}, left by a helm that was cut off")
        return Look("wait", f"release {now.status} for {now.age_s} s, perhaps by a helm on another machine")

    return until(host, "helm", limit + 30, look, "hami_ready_timeout")
