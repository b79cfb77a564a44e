"""Deployments and ReplicaSets, with rolling updates that respect maxSurge and maxUnavailable."""

import copy
import math
from typing import Any

from .. import clock, events
from ..cluster import (
    Cluster,
    condition,
    is_active,
    is_leaving,
    is_ready,
    owned_by,
    owner_reference,
    set_condition,
)
from . import pods

Object = dict[str, Any]
REVISION = "deployment.kubernetes.io/revision"


def sync(cluster: Cluster) -> None:
    for deployment in cluster.store.select("apps/deployments"):
        if not is_leaving(deployment):
            _deployment(cluster, deployment)
    for replica_set in cluster.store.select("apps/replicasets"):
        if not is_leaving(replica_set):
            _replica_set(cluster, replica_set)


def _share(value: Any, total: int, up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * total / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value)


def _deployment(cluster: Cluster, deployment: Object) -> None:
    meta, spec = deployment["metadata"], deployment["spec"]
    sets = [
        s for s in cluster.store.select("apps/replicasets", meta["namespace"]) if owned_by(s, meta["uid"])
    ]
    digest = pods.template_hash(spec["template"])
    name = f"{meta['name']}-{digest}"
    current = next((s for s in sets if s["metadata"]["name"] == name), None)
    if current is None:
        current = _new_set(cluster, deployment, name, digest, sets)
        sets.append(current)
    olds = [s for s in sets if s["metadata"]["name"] != name]
    _scale(cluster, deployment, current, olds)
    _status(cluster, deployment, name)
    _prune(cluster, deployment, olds)


def _new_set(cluster: Cluster, deployment: Object, name: str, digest: str, sets: list[Object]) -> Object:
    meta, spec = deployment["metadata"], deployment["spec"]
    revision = (
        max((int(s["metadata"].get("annotations", {}).get(REVISION, "0")) for s in sets), default=0) + 1
    )
    template = copy.deepcopy(spec["template"])
    labels = {**(template["metadata"].get("labels") or {}), "pod-template-hash": digest}
    template["metadata"]["labels"] = labels
    selector = copy.deepcopy(spec["selector"])
    selector.setdefault("matchLabels", {})["pod-template-hash"] = digest
    made = cluster.store.create(
        cluster.resource("apps/replicasets"),
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": labels,
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
            "status": {"replicas": 0},
        },
    )

    def number(obj: Object) -> None:
        obj["metadata"].setdefault("annotations", {})[REVISION] = str(revision)

    cluster.store.modify("apps/deployments", meta["namespace"], meta["name"], number)
    return made


def _resize(cluster: Cluster, deployment: Object, replica_set: Object, count: int) -> None:
    old = replica_set["spec"]["replicas"]
    if old == count:
        return
    meta = replica_set["metadata"]
    resource = cluster.resource("apps/replicasets")
    cluster.store.modify(
        resource, meta["namespace"], meta["name"], lambda o: o["spec"].update(replicas=count)
    )
    word = "up" if count > old else "down"
    text = f"Scaled {word} replica set {meta['name']} from {old} to {count}"
    events.emit(cluster.store, deployment, "Normal", "ScalingReplicaSet", text, "deployment-controller")


def _scale(cluster: Cluster, deployment: Object, current: Object, olds: list[Object]) -> None:
    spec = deployment["spec"]
    wanted = spec["replicas"]
    of_old = [p for s in olds for p in _members(cluster, s)]
    old_total = sum(s["spec"]["replicas"] for s in olds)
    if spec["strategy"]["type"] == "Recreate":
        for replica_set in olds:
            _resize(cluster, deployment, replica_set, 0)
        if not of_old:
            _resize(cluster, deployment, current, wanted)
        return
    rolling = spec["strategy"].get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), wanted, True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, False)
    if not surge and not unavailable:
        unavailable = 1
    _resize(
        cluster,
        deployment,
        current,
        max(current["spec"]["replicas"], min(wanted, wanted + surge - old_total)),
    )
    fresh = cluster.store.get(
        "apps/replicasets", current["metadata"]["namespace"], current["metadata"]["name"]
    )
    if fresh["spec"]["replicas"] > wanted:
        _resize(cluster, deployment, fresh, wanted)
    if not old_total:
        return
    ready_new = sum(1 for p in _members(cluster, current) if is_ready(p))
    ready_old = sum(1 for p in of_old if is_ready(p))
    spare = ready_new + ready_old - (wanted - unavailable) + (len(of_old) - ready_old)
    for replica_set in olds:
        have = replica_set["spec"]["replicas"]
        drop = max(0, min(have, spare))
        if drop and (spare := spare - drop) >= 0:
            _resize(cluster, deployment, replica_set, have - drop)


def _members(cluster: Cluster, replica_set: Object) -> list[Object]:
    meta = replica_set["metadata"]
    return [p for p in cluster.store.select("pods", meta["namespace"]) if owned_by(p, meta["uid"])]


def _status(cluster: Cluster, deployment: Object, current: str) -> None:
    meta = deployment["metadata"]
    deployment = cluster.store.get("apps/deployments", meta["namespace"], meta["name"]) or deployment
    spec, old = deployment["spec"], deployment.get("status") or {}
    members: dict[str, list[Object]] = {}
    for replica_set in cluster.store.select("apps/replicasets", meta["namespace"]):
        if owned_by(replica_set, meta["uid"]):
            found = [p for p in _members(cluster, replica_set) if is_active(p) and not is_leaving(p)]
            members[replica_set["metadata"]["name"]] = found
    everyone = [p for found in members.values() for p in found]
    ready, updated, wanted = sum(map(is_ready, everyone)), len(members.get(current, [])), spec["replicas"]
    rolling = (spec["strategy"].get("rollingUpdate") or {}).get("maxUnavailable", 0)
    enough = ready >= wanted - _share(rolling, wanted, False)
    conditions = list(old.get("conditions") or [])
    text = (
        "Deployment has minimum availability." if enough else "Deployment does not have minimum availability."
    )
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    conditions = set_condition(conditions, _moment("Available", "True" if enough else "False", reason, text))
    new_ready = sum(map(is_ready, members.get(current, [])))
    if updated == wanted and new_ready >= wanted and len(everyone) == wanted:
        text = f'ReplicaSet "{current}" has successfully progressed.'
        progress = _moment("Progressing", "True", "NewReplicaSetAvailable", text)
    else:
        progress = _progress(conditions, current, spec.get("progressDeadlineSeconds", 600))
    conditions = set_condition(conditions, progress)
    status = {"observedGeneration": deployment["metadata"]["generation"], "conditions": conditions}
    counts = {"replicas": len(everyone), "updatedReplicas": updated, "readyReplicas": ready}
    counts |= {"availableReplicas": ready, "unavailableReplicas": max(0, max(wanted, len(everyone)) - ready)}
    status.update({k: v for k, v in counts.items() if v})
    cluster.patch_status("apps/deployments", deployment, status)


def _moment(kind: str, status: str, reason: str, text: str) -> Object:
    return {**condition(kind, status, reason, text), "lastUpdateTime": clock.stamp()}


def _progress(conditions: list[Object], current: str, deadline: int) -> Object:
    text = f'ReplicaSet "{current}" is progressing.'
    old = next((c for c in conditions if c["type"] == "Progressing"), None)
    if old and current in old.get("message", "") and old.get("reason") != "NewReplicaSetAvailable":
        if clock.age(old.get("lastUpdateTime")) > deadline:
            text = f'ReplicaSet "{current}" has timed out progressing.'
            return _moment("Progressing", "False", "ProgressDeadlineExceeded", text)
        return old
    return _moment("Progressing", "True", "ReplicaSetUpdated", text)


def _prune(cluster: Cluster, deployment: Object, olds: list[Object]) -> None:
    idle = [s for s in olds if not s["spec"]["replicas"] and not s.get("status", {}).get("replicas")]
    idle.sort(key=lambda s: int(s["metadata"]["annotations"].get(REVISION, "0")))
    for replica_set in idle[: max(0, len(idle) - deployment["spec"].get("revisionHistoryLimit", 10))]:
        cluster.store.remove(
            "apps/replicasets", replica_set["metadata"]["namespace"], replica_set["metadata"]["name"]
        )


def _replica_set(cluster: Cluster, replica_set: Object) -> None:
    everyone = _members(cluster, replica_set)
    alive = [p for p in everyone if is_active(p) and not is_leaving(p)]
    wanted = replica_set["spec"]["replicas"]
    for _ in range(wanted - len(alive)):
        if (
            pods.create(cluster, replica_set, replica_set["spec"]["template"], "replicaset-controller")
            is None
        ):
            break
    surplus = sorted(alive, key=lambda p: (is_ready(p), p["metadata"]["creationTimestamp"]))
    for pod in surplus[: max(0, len(alive) - wanted)]:
        pods.delete(cluster, replica_set, pod, "replicaset-controller")
    alive = [p for p in _members(cluster, replica_set) if is_active(p) and not is_leaving(p)]
    ready = sum(map(is_ready, alive))
    status = {"replicas": len(alive), "observedGeneration": replica_set["metadata"]["generation"]}
    status |= {"fullyLabeledReplicas": len(alive)} if alive else {}
    status |= {"readyReplicas": ready, "availableReplicas": ready} if ready else {}
    cluster.patch_status("apps/replicasets", replica_set, status)
