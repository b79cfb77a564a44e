"""What k3s itself puts into a fresh cluster, and the manifests of its server folder."""

from pathlib import Path
from typing import Any

import yaml

from . import log, paths
from .cluster import Cluster
from .problem import ProblemError

Object = dict[str, Any]
RUNTIME_CLASSES = (
    "crun",
    "lunatic",
    "nvidia",
    "nvidia-cdi",
    "nvidia-experimental",
    "slight",
    "spin",
    "wasmedge",
)


def install(cluster: Cluster, disabled: list[str]) -> None:
    objects = cluster.objects
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        if cluster.store.get("namespaces", "", name) is None:
            meta = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            objects.create(cluster.resource("namespaces"), "", meta)
    if "runtimes" not in disabled:
        for name in RUNTIME_CLASSES:
            ensure(
                cluster, {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": name}, name, ""
            )
    for name in ("system-cluster-critical", "system-node-critical"):
        value = 2000000000 if "cluster" in name else 2000001000
        ensure(
            cluster, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}, name, ""
        )
    for name in ("cluster-admin", "admin", "edit", "view"):
        ensure(
            cluster,
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []},
            name,
            "",
        )
    spec = {"clusterIP": "10.43.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]}
    ensure(cluster, {"apiVersion": "v1", "kind": "Service", "spec": spec}, "kubernetes", "default")
    if "coredns" not in disabled:
        _coredns(cluster)


def ensure(cluster: Cluster, obj: Object, name: str, namespace: str) -> None:
    resource = cluster.table.by_kind(obj["apiVersion"], obj["kind"])
    if cluster.store.get(resource, namespace, name) is None:
        obj = {**obj, "metadata": {"name": name, **obj.get("metadata", {})}}
        cluster.objects.create(resource, namespace, obj)


def _coredns(cluster: Cluster) -> None:
    labels = {"k8s-app": "kube-dns"}
    ensure(cluster, {"apiVersion": "v1", "kind": "ServiceAccount"}, "coredns", "kube-system")
    container = {
        "name": "coredns",
        "image": "rancher/mirrored-coredns-coredns:1.14.2",
        "args": ["-conf", "/etc/Corefile"],
    }
    container["ports"] = [{"containerPort": 53, "name": "dns", "protocol": "UDP"}]
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "serviceAccountName": "coredns"},
    }
    template["spec"]["priorityClassName"] = "system-cluster-critical"
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec, "metadata": {"labels": labels}}
    ensure(cluster, obj, "coredns", "kube-system")
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    spec = {"clusterIP": "10.43.0.10", "ports": ports, "selector": labels}
    ensure(cluster, {"apiVersion": "v1", "kind": "Service", "spec": spec}, "kube-dns", "kube-system")


def changed(cluster: Cluster) -> list[tuple[str, str]]:
    """Path and text of manifests in this server's folder that are new or changed; a removed file removes nothing."""
    folder = paths.on_node(paths.MANIFESTS)
    seen = cluster.memory.setdefault("manifests", {})
    found = []
    for path in sorted(folder.glob("*.y*ml")) if folder.is_dir() else []:
        text = path.read_text()
        if seen.get(path.name) != text:
            seen[path.name] = text
            found.append((str(path), text))
    return found


def apply(cluster: Cluster, name: str, text: str) -> None:
    path = Path(name)
    try:
        documents = [d for d in yaml.safe_load_all(text) if d]
    except yaml.YAMLError as broken:
        log.error(f"Failed to process config: failed to process {path}: {broken}")
        return
    log.info(f"Applying addon {path.stem} from {path}")
    for obj in documents:
        resource = cluster.table.by_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
        if resource is None:
            log.error(f"Failed to process config: {path}: no matches for kind {obj.get('kind')}")
            continue
        meta = obj.get("metadata") or {}
        namespace = meta.get("namespace", "default") if resource.namespaced else ""
        options = {"manager": "deploy@k3s"}
        try:
            cluster.objects.patch(
                resource, namespace, meta["name"], "application/apply-patch+yaml", obj, options
            )
        except ProblemError as refused:
            log.error(f"Failed to process config: failed to process {path}: {refused.message}")
