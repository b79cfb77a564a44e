"""Nodes: their pod network, taints that follow their conditions, what happens to silent ones and to pods of deleted ones."""

import ipaddress
import time
from typing import Any

from .. import clock, log, paths
from ..cluster import Cluster, condition, is_active, is_leaving, is_ready, set_condition

Object = dict[str, Any]
LEASES = "coordination.k8s.io/leases"
EVICT_AFTER = 300.0  # s; the toleration that every pod has
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def sync(cluster: Cluster) -> None:
    nodes = cluster.store.in_order("nodes")
    for node in nodes:
        if not (node.get("spec") or {}).get("podCIDR"):
            _network(cluster, node)
        _watch(cluster, node)
    for node in cluster.store.in_order("nodes"):
        _taints(cluster, node)
    names = {n["metadata"]["name"] for n in nodes}
    _orphans(cluster, names)


def _network(cluster: Cluster, node: Object) -> None:
    taken = {(n.get("spec") or {}).get("podCIDR") for n in cluster.store.select("nodes")}
    networks = map(str, ipaddress.ip_network("10.42.0.0/16").subnets(new_prefix=24))
    cidr = next(n for n in networks if n not in taken)
    name = node["metadata"]["name"]
    cluster.store.modify("nodes", "", name, lambda o: o["spec"].update(podCIDR=cidr, podCIDRs=[cidr]))


def _ready(node: Object) -> str:
    conditions = node.get("status", {}).get("conditions") or []
    return next((c["status"] for c in conditions if c["type"] == "Ready"), "Unknown")


def _watch(cluster: Cluster, node: Object) -> None:
    """A node is silent when this process has not seen its lease change for the grace time."""
    name = node["metadata"]["name"]
    seen = cluster.memory.setdefault("node-seen", {})
    lease = cluster.store.get(LEASES, "kube-node-lease", name)
    mark = (lease or {"spec": {}})["spec"].get("renewTime")
    if name not in seen or seen[name][0] != mark:
        seen[name] = (mark, time.monotonic())
    if time.monotonic() - seen[name][1] < paths.NODE_GRACE:
        return
    if _ready(node) != "Unknown":
        log.info(f'"Node is unresponsive" node="{name}"')
        cluster.store.modify("nodes", "", name, _unknown)
    for pod in cluster.pods():
        if pod["spec"].get("nodeName") == name and is_ready(pod):
            meta = pod["metadata"]
            cluster.store.modify("pods", meta["namespace"], meta["name"], _not_ready)
    if time.monotonic() - seen[name][1] > paths.NODE_GRACE + EVICT_AFTER:
        _evict(cluster, name)


def _unknown(node: Object) -> None:
    status = node["status"]
    for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready"):
        new = condition(kind, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        beat = next(
            (c.get("lastHeartbeatTime") for c in status["conditions"] if c["type"] == kind), clock.stamp()
        )
        status["conditions"] = set_condition(status["conditions"], {**new, "lastHeartbeatTime": beat})


def _not_ready(pod: Object) -> None:
    status = pod["status"]
    status["conditions"] = set_condition(status.get("conditions") or [], condition("Ready", "False"))


def _evict(cluster: Cluster, name: str) -> None:
    """Marked for deletion; they are gone only when their kubelet says so or the node is deleted."""
    for pod in cluster.pods():
        owners = pod["metadata"].get("ownerReferences") or []
        if pod["spec"].get("nodeName") != name or is_leaving(pod) or not is_active(pod):
            continue
        if not any(o["kind"] == "DaemonSet" for o in owners):
            meta = pod["metadata"]
            cluster.objects.delete(cluster.resource("pods"), meta["namespace"], meta["name"], {})


def _taints(cluster: Cluster, node: Object) -> None:
    key = {"True": "", "False": NOT_READY}.get(_ready(node), UNREACHABLE)
    wanted = [(key, effect) for effect in ("NoSchedule", "NoExecute")] if key else []
    old = (node.get("spec") or {}).get("taints") or []
    kept = [t for t in old if t["key"] not in (NOT_READY, UNREACHABLE) or (t["key"], t["effect"]) in wanted]
    have = {(t["key"], t["effect"]) for t in kept}
    new = kept + [
        {"key": k, "effect": e, "timeAdded": clock.stamp()} for k, e in wanted if (k, e) not in have
    ]
    if new == old:
        return

    def change(obj: Object) -> None:
        obj["spec"].pop("taints", None)
        if new:
            obj["spec"]["taints"] = new

    cluster.store.modify("nodes", "", node["metadata"]["name"], change)


def _orphans(cluster: Cluster, names: set[str]) -> None:
    for pod in cluster.pods():
        place = pod["spec"].get("nodeName")
        if place and place not in names:
            cluster.store.remove("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    for lease in cluster.store.select(LEASES, "kube-node-lease"):
        if lease["metadata"]["name"] not in names:
            cluster.store.remove(LEASES, "kube-node-lease", lease["metadata"]["name"])
