"""What an upgrade may do to a node and what it must ask for first. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hami_k3s import releases
from hami_k3s.chart import merged
from hami_k3s.settings import Settings

STAYS = "OnDelete"
_STRATEGY = {"devicePlugin": {"updateStrategy": {"type": STAYS}}}


@dataclass(frozen=True)
class Now:
    """What runs: k3s on the node and on its server, the release's chart. None where it is not there or not known."""

    kubelet: str | None = None
    server: str | None = None
    chart: str | None = None


def minor(version: str) -> tuple[int, ...]:
    """`v1.36.2+k3s1` -> (1, 36)."""
    return releases.numbers(version)[:2]


def k3s_refusal(server: str | None, wanted: str, channels: str) -> str:
    """Why k3s cannot go from the server's version to the wanted one, or "".

    + channels: where a minor version's newest release can be looked up
    """
    if server is None:
        return ""
    if releases.numbers(server) > releases.numbers(wanted):
        return f"k3s_version: the server runs {server}, newer than {wanted}; k3s cannot go back. Set k3s_version: {server}"
    (major, now), (_, then) = minor(server), minor(wanted)
    if then - now < 2:
        return ""
    first = f"v{major}.{now + 1}"
    return (
        f"k3s_version: {server} -> {wanted} leaves out a minor version, which Kubernetes does not support. First go to a "
        f"release of {first}: the same command with --data k3s_version={first}.N+k3sN ({channels}/{first} names the newest)"
    )


def drains(now: Now, settings: Settings) -> list[str]:
    """Why no GPU pod may run on the node while it is upgraded; empty when they may."""
    found = []
    if now.kubelet is not None and minor(now.kubelet) != minor(settings.k3s_version):
        found.append(f"k3s {now.kubelet} -> {settings.k3s_version}, another minor version")
    if now.chart is not None and now.chart != settings.hami_chart_version:
        found.append(
            f"HAMi {now.chart} -> {settings.hami_chart_version}, its library is copied over the live one"
        )
    return found


def pods_in_the_way(node: str, why: Sequence[str], pods: Sequence[str], command: str) -> str:
    """The refusal that names the pods, and what to type to go on all the same."""
    many = f"{len(pods)} pods have" if len(pods) > 1 else "1 pod has"
    lines = [f"{many} a card of node {node}, which must be empty for this upgrade ({'; '.join(why)}):"]
    lines += [f"- {pod}" for pod in pods]
    lines.append(
        "To have them evicted, node by node (a pod without a controller does not come back), and go on:\n    "
        + command
    )
    return "\n".join(lines)


def strategy(values: Mapping[str, Any]) -> str | None:
    """The plugin's update strategy in a release's user values."""
    found = (values.get("devicePlugin") or {}).get("updateStrategy") or {}
    return found.get("type") if isinstance(found, Mapping) else None


def staying(settings: Settings) -> Settings:
    """The settings with which the plugin's pods stay what they are until somebody deletes them."""
    return settings.model_copy(update={"hami_values": merged(settings.hami_values, _STRATEGY)})


def must_stay(now: Now, values: Mapping[str, Any], settings: Settings) -> bool:
    """Must the plugin's pods not be replaced all by themselves, now or since an upgrade that was interrupted?"""
    changes = now.chart is not None and now.chart != settings.hami_chart_version
    return changes or (strategy(values) == STAYS and strategy(settings.hami_values) != STAYS)


@dataclass(frozen=True)
class Plugins:
    """The device plugin's pods, those of an older template than the DaemonSet's: node -> pod. `settled`: the
    DaemonSet's controller has seen the newest template."""

    settled: bool
    older: Mapping[str, str]


def plugins(items: Sequence[Mapping[str, Any]]) -> Plugins:
    """From the DaemonSet, its ControllerRevisions and its pods."""

    def of(kind: str) -> list[Mapping[str, Any]]:
        return [one for one in items if one.get("kind") == kind]

    def label(item: Mapping[str, Any]) -> str:
        return str((item["metadata"].get("labels") or {}).get("controller-revision-hash", ""))

    newest = max(of("ControllerRevision"), key=lambda one: int(one["revision"]), default=None)
    settled = newest is not None and all(
        one.get("status", {}).get("observedGeneration") == one["metadata"].get("generation")
        for one in of("DaemonSet")
    )
    if newest is None:
        return Plugins(not of("DaemonSet"), {})
    older = {
        str(one["spec"].get("nodeName")): str(one["metadata"]["name"])
        for one in of("Pod")
        if label(one) != label(newest) and "deletionTimestamp" not in one["metadata"]
    }
    return Plugins(settled, older)
