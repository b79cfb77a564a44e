"""Events as the API keeps them: one object per (object, reason, message, source), counted when it happens again."""

import hashlib
from typing import Any

from . import clock
from .store import Store

Object = dict[str, Any]


def emit(
    store: Store, obj: Object, kind: str, reason: str, message: str, source: str, host: str = ""
) -> None:
    """kind: Normal or Warning; source: the component that kubectl prints in the From column."""
    meta = obj["metadata"]
    namespace = meta.get("namespace") or "default"
    key = f"{meta.get('uid', meta['name'])}|{kind}|{reason}|{message}|{source}"
    name = f"{meta['name']}.{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    now = clock.stamp()

    def again(event: Object) -> None:
        event["count"] = event.get("count", 1) + 1
        event["lastTimestamp"] = now

    if store.modify("events", namespace, name, again):
        return
    involved = {
        "kind": obj["kind"],
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "apiVersion": obj.get("apiVersion", "v1"),
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {k: v for k, v in involved.items() if v},
        "reason": reason,
        "message": message,
        "source": {"component": source, **({"host": host} if host else {})},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": kind,
        "eventTime": None,
        "reportingComponent": source,
        "reportingInstance": host,
    }
    store.create("events", event)


def as_events_v1(event: Object) -> Object:
    """The same event in the shape of events.k8s.io/v1."""
    shown = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": event["metadata"],
        "eventTime": event.get("eventTime"),
        "reportingController": event.get("reportingComponent", ""),
        "reportingInstance": event.get("reportingInstance", ""),
        "reason": event.get("reason", ""),
        "regarding": event.get("involvedObject", {}),
        "note": event.get("message", ""),
        "type": event.get("type", ""),
        "deprecatedSource": event.get("source", {}),
        "deprecatedFirstTimestamp": event.get("firstTimestamp"),
        "deprecatedLastTimestamp": event.get("lastTimestamp"),
        "deprecatedCount": event.get("count", 1),
    }
    return shown


def expire(store: Store, seconds: float = 3600) -> None:
    """k3s keeps events for an hour."""
    for event in store.select("events"):
        if clock.age(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]) > seconds:
            store.remove("events", event["metadata"]["namespace"], event["metadata"]["name"])
