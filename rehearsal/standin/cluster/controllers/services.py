"""Endpoints and EndpointSlices of Services, from the ready pods that the selector names."""

from typing import Any

from ..cluster import Cluster, is_leaving, is_ready, owner_reference
from ..selectors import match_labels

Object = dict[str, Any]


def sync(cluster: Cluster) -> None:
    services = {
        (s["metadata"]["namespace"], s["metadata"]["name"]): s for s in cluster.store.select("services")
    }
    for address, service in services.items():
        if service["spec"].get("selector"):
            _endpoints(cluster, *address, service)
    for key, name_of in (
        ("endpoints", lambda o: o["metadata"]["name"]),
        (
            "discovery.k8s.io/endpointslices",
            lambda o: o["metadata"]["labels"].get("kubernetes.io/service-name"),
        ),
    ):
        for obj in cluster.store.select(key):
            address = (obj["metadata"]["namespace"], name_of(obj))
            if address not in services and address != ("default", "kubernetes"):
                cluster.store.remove(key, obj["metadata"]["namespace"], obj["metadata"]["name"])


def _port(port: Object, pod: Object) -> int:
    target = port.get("targetPort", port["port"])
    if isinstance(target, int) or str(target).isdigit():
        return int(target)
    for container in pod["spec"]["containers"]:
        for offered in container.get("ports") or []:
            if offered.get("name") == target:
                return int(offered["containerPort"])
    return int(port["port"])


def _endpoints(cluster: Cluster, namespace: str, name: str, service: Object) -> None:
    selector = {"matchLabels": service["spec"]["selector"]}
    backing = [
        p
        for p in cluster.store.select("pods", namespace)
        if match_labels(selector, p["metadata"].get("labels") or {})
        and p.get("status", {}).get("podIP")
        and p["status"].get("phase") in ("Running", "Pending")
        and not is_leaving(p)
    ]
    ready = [p for p in backing if is_ready(p) or service["spec"].get("publishNotReadyAddresses")]
    waiting = [p for p in backing if p not in ready]
    subsets = []
    if backing:
        ports = []
        for port in service["spec"].get("ports") or []:
            entry = {"port": _port(port, backing[0]), "protocol": port.get("protocol", "TCP")}
            ports.append({"name": port["name"], **entry} if port.get("name") else entry)
        subset: Object = {"ports": ports}
        if ready:
            subset["addresses"] = [_address(p) for p in ready]
        if waiting:
            subset["notReadyAddresses"] = [_address(p) for p in waiting]
        subsets = [subset]
    wanted: Object = {"subsets": subsets} if subsets else {}
    _put(cluster, "endpoints", namespace, name, {"apiVersion": "v1", "kind": "Endpoints"}, wanted, {}, None)
    flat = [
        {
            "addresses": [p["status"]["podIP"]],
            "conditions": {"ready": p in ready, "serving": p in ready, "terminating": False},
            "nodeName": p["spec"].get("nodeName"),
            "targetRef": _reference(p),
        }
        for p in backing
    ]
    content = {"endpoints": flat, "ports": subsets[0]["ports"] if subsets else []}
    labels = {"kubernetes.io/service-name": name}
    labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io"
    head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    key = "discovery.k8s.io/endpointslices"
    _put(cluster, key, namespace, f"{name}-rh001", head, content, labels, service)


def _reference(pod: Object) -> Object:
    meta = pod["metadata"]
    return {"kind": "Pod", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}


def _address(pod: Object) -> Object:
    return {
        "ip": pod["status"]["podIP"],
        "nodeName": pod["spec"].get("nodeName"),
        "targetRef": _reference(pod),
    }


def _put(
    cluster: Cluster,
    key: str,
    namespace: str,
    name: str,
    head: Object,
    content: Object,
    labels: Object,
    owner: Object | None,
) -> None:
    old = cluster.store.get(key, namespace, name)
    if old is None:
        meta: Object = {"name": name, "namespace": namespace}
        if labels:
            meta["labels"] = labels
        if owner:
            meta["ownerReferences"] = [owner_reference(owner)]
        cluster.store.create(key, {**head, "metadata": meta, **content})
        return
    current = {k: old[k] for k in ("subsets", "endpoints", "ports") if k in old}
    if current != content:

        def change(obj: Object) -> None:
            for field in ("subsets", "endpoints", "ports"):
                obj.pop(field, None)
            obj.update(content)

        cluster.store.modify(key, namespace, name, change)
