"""What every part of the running cluster shares."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .containerd import Daemon
from .objects import Objects
from .resources import Resource, Table
from .store import Store

Object = dict[str, Any]


@dataclass
class Cluster:
    store: Store
    objects: Objects
    table: Table
    version: str
    node: str
    address: str
    started: float
    daemon: Daemon | None = None
    roles: tuple[str, ...] = ("control-plane",)
    # resource name -> who owns kubelet's device socket for it: (allocatable count, allocate)
    syncs: list[Callable[["Cluster"], None]] = field(default_factory=list)
    kubelet: Any = None
    memory: dict[str, Any] = field(default_factory=dict)  # what running programs remember, by container id

    def resource(self, key: str) -> Resource:
        return self.table.by_key(key)

    def pods(self) -> list[Object]:
        return self.store.select("pods")

    def patch_status(self, key: str, obj: Object, status: Object) -> None:
        meta = obj["metadata"]
        if obj.get("status") != status:
            self.store.modify(key, meta.get("namespace", ""), meta["name"], lambda o: o.update(status=status))


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def is_active(pod: Object) -> bool:
    """Still holds its resources."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def is_leaving(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def owned_by(obj: Object, uid: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any(o["uid"] == uid and o.get("controller") for o in owners)


def owner_reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(kind: str, status: str, reason: str = "", message: str = "", since: str = "") -> Object:
    from . import clock

    now = since or clock.stamp()
    found = {"type": kind, "status": status, "lastTransitionTime": now}
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


def set_condition(conditions: list[Object], new: Object) -> list[Object]:
    """The list with one condition replaced; its transition time is kept while its status is the same."""
    kept = []
    replaced = False
    for old in conditions:
        if old["type"] != new["type"]:
            kept.append(old)
            continue
        replaced = True
        if old["status"] == new["status"]:
            new = {**new, "lastTransitionTime": old.get("lastTransitionTime", new["lastTransitionTime"])}
            if "lastUpdateTime" in old and old.get("reason") == new.get("reason"):
                new["lastUpdateTime"] = old["lastUpdateTime"]
        kept.append(new)
    return kept if replaced else [*kept, new]
