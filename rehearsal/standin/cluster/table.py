"""Tables: what plain `kubectl get` prints."""

from collections.abc import Callable
from typing import Any

from . import clock
from .resources import Resource

Object = dict[str, Any]
Column = tuple[str, int]  # name, priority (1: only with -o wide)


def human_age(text: str | None) -> str:
    if not text:
        return "<unknown>"
    seconds = max(0, int(clock.age(text)))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{days}d"


def pod_reason(pod: Object) -> str:
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    for container in status.get("initContainerStatuses") or []:
        state = container.get("state", {})
        if state.get("terminated", {}).get("exitCode") == 0 or "running" in state:
            continue
        inner = state.get("terminated") or state.get("waiting") or {}
        if inner.get("reason") not in (None, "", "PodInitializing"):
            reason = "Init:" + inner["reason"]
    for container in reversed(status.get("containerStatuses") or []):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            inner = state["terminated"]
            reason = inner.get("reason") or f"ExitCode:{inner.get('exitCode')}"
    return "Terminating" if pod["metadata"].get("deletionTimestamp") else reason


def _pod(pod: Object) -> list[Any]:
    status = pod.get("status", {})
    containers = status.get("containerStatuses") or []
    ready = sum(1 for c in containers if c.get("ready"))
    restarts = sum(c.get("restartCount", 0) for c in containers)
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(pod['spec'].get('containers', []))}",
        pod_reason(pod),
        str(restarts),
        human_age(pod["metadata"]["creationTimestamp"]),
        status.get("podIP") or "<none>",
        pod["spec"].get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        "<none>",
    ]


def _node(node: Object) -> list[Any]:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions", [])}
    state = "Ready" if conditions.get("Ready") == "True" else "NotReady"
    if node.get("spec", {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(k.removeprefix(prefix) for k in node["metadata"].get("labels", {}) if k.startswith(prefix))
    info = node.get("status", {}).get("nodeInfo", {})
    addresses = {a["type"]: a["address"] for a in node.get("status", {}).get("addresses", [])}
    return [
        node["metadata"]["name"],
        state,
        ",".join(roles) or "<none>",
        human_age(node["metadata"]["creationTimestamp"]),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage", ""),
        f"{info.get('kernelVersion', '')} (amd64)",
        info.get("containerRuntimeVersion", ""),
    ]


def _deployment(obj: Object) -> list[Any]:
    status, spec = obj.get("status", {}), obj["spec"]
    containers = spec["template"]["spec"].get("containers", [])
    selector = ",".join(f"{k}={v}" for k, v in (spec.get("selector", {}).get("matchLabels") or {}).items())
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        human_age(obj["metadata"]["creationTimestamp"]),
        ",".join(c["name"] for c in containers),
        ",".join(c["image"] for c in containers),
        selector,
    ]


def _daemonset(obj: Object) -> list[Any]:
    status = obj.get("status", {})
    selector = obj["spec"]["template"]["spec"].get("nodeSelector") or {}
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    return [
        obj["metadata"]["name"],
        *[status.get(n, 0) for n in (*names, "numberAvailable")],
        ",".join(f"{k}={v}" for k, v in selector.items()) or "<none>",
        human_age(obj["metadata"]["creationTimestamp"]),
    ]


def _service(obj: Object) -> list[Any]:
    spec = obj["spec"]
    ports = []
    for port in spec.get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return [
        obj["metadata"]["name"],
        spec.get("type", ""),
        spec.get("clusterIP") or "<none>",
        "<none>",
        ",".join(ports) or "<none>",
        human_age(obj["metadata"]["creationTimestamp"]),
    ]


def _event(obj: Object) -> list[Any]:
    involved = obj.get("involvedObject", {})
    return [
        human_age(obj.get("lastTimestamp") or obj["metadata"]["creationTimestamp"]),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{involved.get('kind', '').lower()}/{involved.get('name', '')}",
        obj.get("message", ""),
    ]


def _job(obj: Object) -> list[Any]:
    status = obj.get("status", {})
    conditions = {c["type"] for c in status.get("conditions", []) if c["status"] == "True"}
    state = next((c for c in ("Complete", "Failed") if c in conditions), "Running")
    return [
        obj["metadata"]["name"],
        state,
        f"{status.get('succeeded', 0)}/{obj['spec'].get('completions', 1)}",
        human_age(obj["metadata"]["creationTimestamp"]),
    ]


def _endpoints(obj: Object) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or []:
            found += [f"{a['ip']}:{port['port']}" for a in subset.get("addresses") or []]
    return [
        obj["metadata"]["name"],
        ",".join(found[:3]) or "<none>",
        human_age(obj["metadata"]["creationTimestamp"]),
    ]


def _runtime_class(obj: Object) -> list[Any]:
    return [obj["metadata"]["name"], obj.get("handler", ""), human_age(obj["metadata"]["creationTimestamp"])]


def _namespace(obj: Object) -> list[Any]:
    phase = obj.get("status", {}).get("phase", "")
    return [obj["metadata"]["name"], phase, human_age(obj["metadata"]["creationTimestamp"])]


def _data(obj: Object) -> list[Any]:
    return [
        obj["metadata"]["name"],
        len(obj.get("data") or {}),
        human_age(obj["metadata"]["creationTimestamp"]),
    ]


def _secret(obj: Object) -> list[Any]:
    name, count, age = _data(obj)
    return [name, obj.get("type", ""), count, age]


def _plain(obj: Object) -> list[Any]:
    return [obj["metadata"]["name"], human_age(obj["metadata"]["creationTimestamp"])]


SHAPES: dict[str, tuple[str, Callable[[Object], list[Any]]]] = {
    "pods": ("Name Ready Status Restarts Age *IP *Node *Nominated_Node *Readiness_Gates", _pod),
    "nodes": (
        "Name Status Roles Age Version *Internal-IP *External-IP *OS-Image *Kernel-Version *Container-Runtime",
        _node,
    ),
    "apps/deployments": ("Name Ready Up-to-date Available Age *Containers *Images *Selector", _deployment),
    "apps/daemonsets": ("Name Desired Current Ready Up-to-date Available Node_Selector Age", _daemonset),
    "services": ("Name Type Cluster-IP External-IP Port(s) Age", _service),
    "events": ("Last_Seen Type Reason Object Message", _event),
    "batch/jobs": ("Name Status Completions Age", _job),
    "endpoints": ("Name Endpoints Age", _endpoints),
    "node.k8s.io/runtimeclasses": ("Name Handler Age", _runtime_class),
    "namespaces": ("Name Status Age", _namespace),
    "configmaps": ("Name Data Age", _data),
    "secrets": ("Name Type Data Age", _secret),
}
PLAIN = ("Name Age", _plain)


def render(resource: Resource, objects: list[Object], version: str, include: str) -> Object:
    names, row = SHAPES.get(resource.key, PLAIN)
    columns = []
    for name in names.split():
        wide, title = name.startswith("*"), name.lstrip("*").replace("_", " ")
        kind = "name" if title == "Name" else ""
        columns.append(
            {
                "name": title,
                "type": "string",
                "format": kind,
                "description": title,
                "priority": 1 if wide else 0,
            }
        )
    rows = []
    for obj in objects:
        whole = obj
        if include != "Object":
            meta = {
                "apiVersion": "meta.k8s.io/v1",
                "kind": "PartialObjectMetadata",
                "metadata": obj["metadata"],
            }
            whole = meta
        rows.append({"cells": row(obj), "object": None if include == "None" else whole})
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": columns,
        "rows": rows,
    }
