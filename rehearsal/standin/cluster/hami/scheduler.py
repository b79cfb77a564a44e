"""HAMi's scheduler: kube-scheduler's own checks, then the extender's filter and bind, with their events."""

import re
import time
from collections import defaultdict
from typing import Any

from .. import clock, events
from ..cluster import Cluster
from ..controllers.scheduler import bind, fits, no_fit, unschedulable, waiting
from . import accounting, release
from .registration import ANNOTATION, HANDSHAKE

Object = dict[str, Any]
LOCK = "hami.io/mutex.lock"


def sync(cluster: Cluster) -> None:
    scheduler = release.active(cluster)
    if scheduler is None:
        return
    for node in cluster.store.select("nodes"):
        handshake(cluster, scheduler, node)
    for pod in waiting(cluster, scheduler.name):
        attempt(cluster, scheduler, pod)


def handshake(cluster: Cluster, scheduler: release.Scheduler, node: Object) -> None:
    """`Requesting_` is written once and is no heartbeat: an old one means nothing while the node has cards to give."""
    annotations = node["metadata"].get("annotations") or {}
    if ANNOTATION not in annotations:
        return
    now = clock.utcnow().strftime("%Y-%m-%d %H:%M:%S")
    value = annotations.get(HANDSHAKE, "")
    count = (node.get("status", {}).get("allocatable") or {}).get(scheduler.count, "0")
    wanted = value
    if not value:
        wanted = f"Requesting_{now}"
    elif value.startswith("Requesting_") and _expired(value) and count == "0":
        wanted = f"Deleted_{now}"
    elif value.startswith("Deleted_") and _expired(value) and count != "0":
        wanted = f"Requesting_{now}"
    if wanted != value:
        _annotate(cluster, node, {HANDSHAKE: wanted})


def _expired(value: str) -> bool:
    found = re.search(r"_(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)$", value)
    return found is None or clock.age(found[1].replace(" ", "T") + "Z") > 60


def _annotate(cluster: Cluster, node: Object, values: dict[str, str | None]) -> None:
    def change(obj: Object) -> None:
        annotations = obj["metadata"].setdefault("annotations", {})
        for key, value in values.items():
            if value is None:
                annotations.pop(key, None)
            else:
                annotations[key] = value

    cluster.store.modify("nodes", "", node["metadata"]["name"], change)


def attempt(cluster: Cluster, scheduler: release.Scheduler, pod: Object) -> None:
    wanted = accounting.requests(scheduler, pod)
    managed = {scheduler.memory, scheduler.percentage, scheduler.cores, scheduler.priority}
    total = cluster.store.select("nodes")
    reasons: dict[str, int] = defaultdict(int)
    candidates = []
    for node in total:
        why = fits(cluster, pod, node, managed)
        for reason in why:
            reasons[reason] += 1
        if not why:
            candidates.append(node)
    if not candidates:
        unschedulable(cluster, pod, scheduler.name, no_fit(reasons, len(total)))
        return
    if not any(r.count for r in wanted):
        text = "does not request any resource"
        events.emit(cluster.store, pod, "Warning", "FilteringFailed", text, scheduler.name)
        bind(cluster, pod, candidates[0], scheduler.name)
        return
    chosen = _filter(cluster, scheduler, pod, candidates, wanted, reasons, len(total))
    if chosen is not None:
        _bind(cluster, scheduler, pod, *chosen)


def _filter(
    cluster: Cluster,
    scheduler: release.Scheduler,
    pod: Object,
    candidates: list[Object],
    wanted: list[accounting.Request],
    reasons: dict[str, int],
    total: int,
) -> tuple[Object, list[list[accounting.Device]]] | None:
    annotations = pod["metadata"].get("annotations") or {}
    policy = annotations.get("hami.io/gpu-scheduler-policy") or scheduler.gpu_policy
    good: list[tuple[Object, accounting.Verdict]] = []
    by_reason: dict[tuple[int, str], list[str]] = defaultdict(list)
    unfit = 0
    for node in candidates:
        name = node["metadata"]["name"]
        handshake_value = (node["metadata"].get("annotations") or {}).get(HANDSHAKE, "")
        cards = accounting.usage(cluster, node)
        if not cards or handshake_value.startswith("Deleted_"):
            reasons["node unregistered"] += 1
            continue
        verdict = accounting.fit(cards, wanted, annotations, policy)
        if verdict.devices is None:
            unfit += 1
            reasons["NodeUnfitPod"] += 1
            for reason in verdict.reasons:
                if reason != "NodeInsufficientDevice":
                    by_reason[(1, reason)].append(name)
        else:
            good.append((node, verdict))
    if not good:
        if unfit:
            text = f"no available node, {unfit} nodes do not meet"
            events.emit(cluster.store, pod, "Warning", "FilteringFailed", text, scheduler.name)
        for (_, reason), names in sorted(by_reason.items()):
            text = f"{len(names)} nodes {reason}({','.join(names)})"
            events.emit(cluster.store, pod, "Warning", "FilteringFailed", text, scheduler.name)
        unschedulable(cluster, pod, scheduler.name, no_fit(reasons, total))
        return None
    node_policy = annotations.get("hami.io/node-scheduler-policy") or scheduler.node_policy
    good.sort(key=lambda g: g[1].score, reverse=node_policy == "binpack")
    node, verdict = good[0]
    scores = ",".join(f"{n['metadata']['name']}:{v.score:.2f}" for n, v in good)
    name = node["metadata"]["name"]
    text = f"find fit node({name}), {unfit} nodes not fit, {len(good)} nodes fit({scores})"
    if scheduler.version < (2, 6, 0):
        text = f"Successfully filtered to following nodes: [{name}]"
    events.emit(cluster.store, pod, "Normal", "FilteringSucceed", text, scheduler.name)
    return node, verdict.devices or []


def _locked(cluster: Cluster, node: Object) -> bool:
    """A lock whose pod is gone, or that is older than five minutes, is broken."""
    fresh = cluster.store.get("nodes", "", node["metadata"]["name"]) or node
    value = (fresh["metadata"].get("annotations") or {}).get(LOCK)
    if not value:
        return False
    try:
        when, namespace, name = value.split(",")
        old = clock.age(when) > 300
    except ValueError:
        when, namespace, name, old = value, "", "", clock.age(value) > 300
    gone = bool(name) and cluster.store.get("pods", namespace, name) is None
    if old or gone:
        _annotate(cluster, node, {LOCK: None})
        return False
    return True


def _bind(
    cluster: Cluster,
    scheduler: release.Scheduler,
    pod: Object,
    node: Object,
    devices: list[list[accounting.Device]],
) -> None:
    meta, name = pod["metadata"], node["metadata"]["name"]
    if _locked(cluster, node):
        text = f"node {name} has been locked within 5m0s"
        events.emit(cluster.store, pod, "Warning", "BindingFailed", text, scheduler.name)
        waited = cluster.memory.setdefault(f"attempts/{scheduler.name}", {})
        waited[meta["uid"]] = (time.monotonic(), None)  # looks again a second later
        return
    now, text = str(int(time.time())), accounting.encode(devices)
    _annotate(cluster, node, {LOCK: f"{clock.stamp()},{meta['namespace']},{meta['name']}"})

    def mark(obj: Object) -> None:
        obj["metadata"].setdefault("annotations", {}).update(
            {
                "hami.io/vgpu-node": name,
                "hami.io/vgpu-time": now,
                "hami.io/bind-time": now,
                "hami.io/bind-phase": "allocating",
                accounting.TO_ALLOCATE: text,
                accounting.ALLOCATED: text,
            }
        )
        obj["metadata"].setdefault("labels", {})["hami.io/vgpu-node"] = name

    cluster.store.modify("pods", meta["namespace"], meta["name"], mark)
    message = f"Successfully binding node [{name}] to {meta['namespace']}/{meta['name']}"
    events.emit(cluster.store, pod, "Normal", "BindingSucceed", message, scheduler.name)
    bind(cluster, pod, node, scheduler.name)
