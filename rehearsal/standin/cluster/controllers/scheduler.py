"""The default scheduler. It knows nothing of HAMi: a pod that asks for `nvidia.com/gpumem` stays Pending here."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from .. import events
from ..cluster import Cluster, condition, is_active, set_condition
from ..scheduling import fits_neighbours, fits_node, fits_resources, summary

Object = dict[str, Any]
RETRY = 60.0  # s; kube-scheduler looks again at unschedulable pods when something changes, and now and then anyway


def sync(cluster: Cluster) -> None:
    for pod in waiting(cluster, "default-scheduler"):
        node, reasons, total = place(cluster, pod, set())
        if node is None:
            unschedulable(cluster, pod, "default-scheduler", no_fit(reasons, total))
            continue
        bind(cluster, pod, node, "default-scheduler")


def signature(cluster: Cluster) -> tuple[Any, ...]:
    """What a scheduling decision depends on; while it stays the same a retry cannot succeed."""
    nodes = tuple(
        (
            n["metadata"]["name"],
            str(n["metadata"].get("labels")),
            str(
                {
                    k: v
                    for k, v in n["metadata"].get("annotations", {}).items()
                    if "register" in k or "lock" in k
                }
            ),
            str(n.get("spec")),
            str(n.get("status", {}).get("allocatable")),
        )
        for n in cluster.store.select("nodes")
    )
    pods = tuple((p["metadata"]["uid"], p["spec"].get("nodeName"), is_active(p)) for p in cluster.pods())
    return nodes, pods


def waiting(cluster: Cluster, name: str, remember: Callable[[], Any] | None = None) -> list[Object]:
    """Pods of this scheduler that are due for an attempt."""
    attempts = cluster.memory.setdefault(f"attempts/{name}", {})
    found = []
    for pod in cluster.store.in_order("pods"):  # first come, first served
        if pod["spec"].get("schedulerName") != name or pod["spec"].get("nodeName"):
            continue
        if pod["spec"].get("schedulingGates") or not is_active(pod):
            continue
        now, mark = time.monotonic(), signature(cluster)
        last = attempts.get(pod["metadata"]["uid"])
        if last and ((last[1] == mark and now - last[0] < RETRY) or now - last[0] < 1.0):
            continue
        attempts[pod["metadata"]["uid"]] = (now, mark)
        found.append(pod)
    return found


def place(cluster: Cluster, pod: Object, ignored: set[str]) -> tuple[Object | None, dict[str, int], int]:
    """The node with the fewest pods of those that fit."""
    reasons: dict[str, int] = {}
    nodes = cluster.store.select("nodes")
    good = []
    for node in nodes:
        why = fits(cluster, pod, node, ignored)
        if not why:
            good.append(node)
        for reason in why:
            reasons[reason] = reasons.get(reason, 0) + 1
    if good:
        held = Counter(p["spec"].get("nodeName") for p in cluster.pods() if is_active(p))
        return min(good, key=lambda n: held[n["metadata"]["name"]]), reasons, len(nodes)
    return None, reasons, len(nodes)


def fits(cluster: Cluster, pod: Object, node: Object, ignored: set[str]) -> list[str]:
    plain = fits_node(pod["spec"], node, daemon=_of_daemon_set(pod)) or fits_neighbours(cluster, pod, node)
    return [plain] if plain else fits_resources(cluster, pod, node, ignored)


def _of_daemon_set(pod: Object) -> bool:
    return any(o["kind"] == "DaemonSet" for o in pod["metadata"].get("ownerReferences") or [])


def no_fit(reasons: dict[str, int], total: int) -> str:
    return summary(reasons, total) if total else "no nodes available to schedule pods"


def unschedulable(cluster: Cluster, pod: Object, scheduler: str, text: str) -> None:
    events.emit(cluster.store, pod, "Warning", "FailedScheduling", text, scheduler)

    def mark(obj: Object) -> None:
        new = condition("PodScheduled", "False", "Unschedulable", text)
        obj["status"]["conditions"] = set_condition(obj["status"].get("conditions") or [], new)

    cluster.store.modify("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], mark)


def bind(cluster: Cluster, pod: Object, node: Object, scheduler: str) -> None:
    meta, name = pod["metadata"], node["metadata"]["name"]

    def place_on(obj: Object) -> None:
        obj["spec"]["nodeName"] = name
        new = condition("PodScheduled", "True")
        obj["status"]["conditions"] = set_condition(
            [c for c in obj["status"].get("conditions") or [] if c["type"] != "PodScheduled"], new
        )

    cluster.store.modify("pods", meta["namespace"], meta["name"], place_on)
    text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {name}"
    events.emit(cluster.store, pod, "Normal", "Scheduled", text, scheduler)
