"""Objects of the Kubernetes API as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hami_k3s.facts import batch

# kubectl's and helm's cache of what the API serves; left alone they make one in root's home.
CACHE = "/run/hami-k3s/kube"
K3S_KUBECTL = f"env KUBECACHEDIR={CACHE} k3s kubectl"
KUBECTL = f"timeout 30 {K3S_KUBECTL} --request-timeout=20s"

# Sent as a dry run: which scheduler would a GPU pod get?
DRY_RUN_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "hami-k3s-dry-run", "namespace": "default"},
    "spec": {
        "containers": [
            {
                "name": "probe",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1"}},
            }
        ]
    },
}


@dataclass(frozen=True)
class Node:
    """One node as the API server shows it. `address`: its InternalIP. `server`: it is one of the cluster's servers."""

    name: str
    ready: bool
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    kubelet: str = ""
    address: str = ""
    server: bool = False


def items(text: str) -> list[dict[str, Any]]:
    """The objects in `kubectl get -o json` output; none for anything else."""
    data = batch.mapping(text)
    found = data.get("items", [data] if data.get("kind") else [])
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def node(item: dict[str, Any]) -> Node:
    """Node from its API object."""
    meta, status = item["metadata"], item.get("status", {})
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
    addresses = [one["address"] for one in status.get("addresses") or [] if one["type"] == "InternalIP"]
    return Node(
        name=meta["name"],
        ready=ready,
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        allocatable=status.get("allocatable") or {},
        kubelet=status.get("nodeInfo", {}).get("kubeletVersion", ""),
        address=addresses[0] if addresses else "",
        server=(meta.get("labels") or {}).get("node-role.kubernetes.io/control-plane") == "true",
    )


def answer_items(answers: dict[str, batch.Answer], name: str) -> list[dict[str, Any]] | None:
    """Objects of one probe, None when the API did not answer it."""
    answer = answers.get(name, batch.NOTHING)
    return items(answer.text) if answer.status == 0 else None
