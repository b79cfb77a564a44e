"""DaemonSets: one pod on each node that the template selects; none is desired where no node does."""

from typing import Any

from ..cluster import Cluster, is_active, is_leaving, is_ready, owned_by, owner_reference
from ..scheduling import fits_node
from . import pods

Object = dict[str, Any]
SOURCE = "daemonset-controller"


def sync(cluster: Cluster) -> None:
    for daemon_set in cluster.store.select("apps/daemonsets"):
        if not is_leaving(daemon_set):
            _daemon_set(cluster, daemon_set)


def _daemon_set(cluster: Cluster, daemon_set: Object) -> None:
    meta, spec = daemon_set["metadata"], daemon_set["spec"]
    digest = pods.template_hash(spec["template"])
    _revision(cluster, daemon_set, digest)
    mine = [p for p in cluster.store.select("pods", meta["namespace"]) if owned_by(p, meta["uid"])]
    nodes = cluster.store.select("nodes")
    tolerant = {**spec["template"]["spec"]}
    wanted = {n["metadata"]["name"] for n in nodes if fits_node(tolerant, n, daemon=True) is None}
    for pod in mine:
        if is_leaving(pod):
            continue
        target = _target(pod)
        stale = pod["metadata"].get("labels", {}).get("controller-revision-hash") != digest
        if stale and spec["updateStrategy"]["type"] == "OnDelete":
            stale = False
        if target not in wanted or stale or not is_active(pod):
            pods.delete(cluster, daemon_set, pod, SOURCE)
    present = {
        _target(p) for p in cluster.store.select("pods", meta["namespace"]) if owned_by(p, meta["uid"])
    }
    for name in sorted(wanted - present):
        template = {**spec["template"], "metadata": {**spec["template"]["metadata"]}}
        labels = {**(template["metadata"].get("labels") or {}), "controller-revision-hash": digest}
        template["metadata"]["labels"] = {**labels, "pod-template-generation": str(meta.get("generation", 1))}
        pods.create(cluster, daemon_set, template, SOURCE, **_pinned(spec["template"]["spec"], name))
    _status(cluster, daemon_set, wanted, digest)


def _revision(cluster: Cluster, daemon_set: Object, digest: str) -> None:
    """The template's history: the newest revision has the highest number, also when an older template comes back."""
    key, meta = "apps/controllerrevisions", daemon_set["metadata"]
    mine = [one for one in cluster.store.select(key, meta["namespace"]) if owned_by(one, meta["uid"])]
    last = max((one["revision"] for one in mine), default=0)
    own = next((one for one in mine if one["metadata"]["labels"]["controller-revision-hash"] == digest), None)
    if own is None:
        labels = {
            **(daemon_set["spec"]["template"]["metadata"].get("labels") or {}),
            "controller-revision-hash": digest,
        }
        made = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": last + 1}
        made["data"] = {"spec": {"template": {**daemon_set["spec"]["template"], "$patch": "replace"}}}
        made["metadata"] = {
            "name": f"{meta['name']}-{digest}",
            "labels": labels,
            "ownerReferences": [owner_reference(daemon_set)],
        }
        cluster.objects.create(cluster.resource(key), meta["namespace"], made)
    elif own["revision"] < last:
        cluster.store.modify(
            key, meta["namespace"], own["metadata"]["name"], lambda o: o.update(revision=last + 1)
        )


def _pinned(spec: Object, node: str) -> Object:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    extra = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        for key, effect in (
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
        )
    ]
    return {
        "affinity": {**(spec.get("affinity") or {}), "nodeAffinity": affinity},
        "tolerations": [*(spec.get("tolerations") or []), *extra],
    }


def _target(pod: Object) -> str:
    if pod["spec"].get("nodeName"):
        return pod["spec"]["nodeName"]
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]


def _status(cluster: Cluster, daemon_set: Object, wanted: set[str], digest: str) -> None:
    meta = daemon_set["metadata"]
    mine = [
        p
        for p in cluster.store.select("pods", meta["namespace"])
        if owned_by(p, meta["uid"]) and not is_leaving(p) and _target(p) in wanted
    ]
    ready = sum(map(is_ready, mine))
    updated = sum(1 for p in mine if p["metadata"]["labels"].get("controller-revision-hash") == digest)
    fresh = cluster.store.get("apps/daemonsets", meta["namespace"], meta["name"]) or daemon_set
    status = {
        "currentNumberScheduled": len(mine),
        "desiredNumberScheduled": len(wanted),
        "numberMisscheduled": 0,
        "numberReady": ready,
        "observedGeneration": fresh["metadata"]["generation"],
    }
    status |= {"updatedNumberScheduled": updated} if updated else {}
    status |= {"numberAvailable": ready} if ready else {}
    if len(wanted) - ready > 0:
        status["numberUnavailable"] = len(wanted) - ready
    cluster.patch_status("apps/daemonsets", fresh, status)
