"""The parts of the evidence that need no pod: host, runtime, cluster, registration."""

from __future__ import annotations

from typing import Any

from pyinfra.api import Host

from hami_k3s import cluster, trusted
from hami_k3s.facts.hami import HANDSHAKE, REGISTER, Hami, memory_scaling, split_count
from hami_k3s.facts.helm import Release
from hami_k3s.facts.k3s import K3s
from hami_k3s.isolation.claims import CLAIMS, judge
from hami_k3s.isolation.evidence import Evidence, Registration
from hami_k3s.isolation.parse import ParseError, parse_registration
from hami_k3s.settings import Settings
from hami_k3s.waits import Look, until

# The claims that these parts are enough for.
NODE = tuple(claim for claim in CLAIMS if claim.scope == "node" and claim.id != "no-request")


def hold(host: Host, settings: Settings, limit: int, setting: str) -> tuple[str, ...]:
    """Wait until the node's claims hold; those that do not within `limit` seconds, with the reason."""
    lost: list[tuple[str, ...]] = [("not looked at",)]

    def look() -> Look:
        parts, errors = measure(host, settings, again=True)
        verdicts = judge(Evidence(host.name, errors=errors, **parts), NODE)
        bad = [one for one in verdicts if not one.status.holds]
        lost[0] = tuple(f"{one.claim}: {one.why or one.observed}" for one in bad)
        return Look("wait", "; ".join(lost[0])) if bad else Look("done", "the node's claims hold")

    until(host, "after the restart", limit, look, setting)
    return lost[0]


def measure(host: Host, settings: Settings, again: bool = False) -> tuple[dict[str, Any], dict[str, str]]:
    """Evidence's parts by name, and per part that is missing the reason.

    What the API says is read once for all agents of a cluster; with `again` it is read anew.
    """
    read = trusted.fresh if again else trusted.read
    where = {"release": settings.hami_release, "namespace": settings.hami_namespace}
    hami = read(host, Hami, **where)
    k3s = read(host, K3s, api=False)
    release = read(host, Release, **where)
    silent = "the API server does not answer: `journalctl -u k3s` on the host says why"
    if cluster.is_agent(host):
        silent = f"no server of its cluster can be asked: {cluster.silence(host)}"
    errors: dict[str, str] = {}
    parts: dict[str, Any] = {
        "node": hami.own_node,
        "cards": hami.nvidia.cards,
        "kernel_module": hami.nvidia.module,
        "containerd": k3s.containerd,
        "providers": hami.providers,
        "server_version": hami.server_version,
        "webhook": hami.webhook,
        "split_count": split_count(release.values) if release.status == "deployed" else None,
        "scheduler_name": release.values.get("schedulerName", "hami-scheduler"),
    }
    errors["cards"] = f"nvidia-smi: {hami.nvidia.message}"
    errors["kernel_module"] = "/proc/driver/nvidia/version is not there: the kernel module is not loaded"
    errors["containerd"] = k3s.containerd_error or "k3s has rendered no containerd config: converge first"
    errors["providers"] = hami.errors.get("daemonsets") or silent
    errors["server_version"] = silent
    errors["webhook"] = hami.errors.get("webhooks") or hami.errors.get("slices") or silent
    errors["split_count"] = (
        f"Helm release {settings.hami_release} is {release.status or release.error}: converge first"
    )
    if hami.pods is None:
        errors["scheduler_images"] = hami.errors.get("pods") or silent
    else:
        running = [pod for pod in hami.pods if pod.component == "hami-scheduler" and pod.phase == "Running"]
        parts["scheduler_images"] = tuple(pod.images.get("kube-scheduler", "") for pod in running)
    own = (hami.nodes or {}).get(hami.own_node or "")
    if own is None:
        errors["registration"] = errors["allocatable"] = f"node {hami.own_node} cannot be read. {silent}"
        return parts, errors
    parts["node_ready"] = own.ready
    parts["allocatable"] = int(own.allocatable.get("nvidia.com/gpu", "0"))
    raw = own.annotations.get(REGISTER)
    try:
        parts["registration"] = Registration(
            devices=parse_registration(raw or ""),
            raw=raw or "",
            handshake=own.annotations.get(HANDSHAKE),
            memory_scaling=memory_scaling(release.values),
        )
    except ParseError as error:
        errors["registration"] = str(error)
    return parts, errors
