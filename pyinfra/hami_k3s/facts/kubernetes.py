"""What the API server knows: nodes, labels, allocatable resources, who serves nvidia.com/gpu."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pyinfra.api import FactBase, QuoteString, StringCommand
from typing_extensions import override

from hami_k3s.facts import batch
from hami_k3s.facts.k3s import KUBECTL


@dataclass(frozen=True)
class Node:
    """One node as the API server shows it."""

    name: str
    ready: bool
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    kubelet: str = ""


def items(text: str) -> list[dict[str, Any]]:
    """The objects in `kubectl get -o json` output; none for anything else."""
    data = batch.mapping(text)
    found = data.get("items", [data] if data.get("kind") else [])
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def node(item: dict[str, Any]) -> Node:
    """Node from its API object."""
    meta, status = item["metadata"], item.get("status", {})
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
    return Node(
        name=meta["name"],
        ready=ready,
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        allocatable=status.get("allocatable") or {},
        kubelet=status.get("nodeInfo", {}).get("kubeletVersion", ""),
    )


class NodeLabel(FactBase[str | None]):
    """
    Returns the value of one label of this host's own node; "" without the label, None when the API or the node is not there.

    + key: the label

    .. code:: python

        "on"
    """

    @override
    def command(self, key: str) -> StringCommand:
        self.key = key
        return StringCommand(f'{KUBECTL} get node "$(hostname | tr A-Z a-z)" -o json 2>/dev/null || true')

    @override
    def process(self, output: list[str]) -> str | None:
        found = items("\n".join(output))
        return node(found[0]).labels.get(self.key, "") if found else None


class Objects(FactBase[list[dict[str, Any]] | None]):
    """
    Returns objects of the API, or None when it did not answer.

    + what: kinds or kind/name, as kubectl takes them
    + namespace: the namespace, "" for all
    + selector: label selector, "" for none
    """

    @override
    def command(self, what: str, namespace: str, selector: str) -> StringCommand:
        bits: list[Any] = [KUBECTL, "get", QuoteString(what), "-o json --ignore-not-found"]
        bits += ["-n", QuoteString(namespace)] if namespace else ["-A"]
        bits += ["-l", QuoteString(selector)] if selector else []
        return StringCommand(*bits, "2>/dev/null && echo __answered__ || true")

    @override
    def process(self, output: list[str]) -> list[dict[str, Any]] | None:
        return items("\n".join(output[:-1])) if output[-1] == "__answered__" else None


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


def dry_run(helper: str = KUBECTL) -> str:
    """Shell that asks the API server, without creating anything, which scheduler a GPU pod would get."""
    pod = json.dumps(DRY_RUN_POD)
    return f"printf %s '{pod}' | {helper} create --dry-run=server -o jsonpath='{{.spec.schedulerName}}' -f - 2>&1"


def answer_items(answers: dict[str, batch.Answer], name: str) -> list[dict[str, Any]] | None:
    """Objects of one probe, None when the API did not answer it."""
    answer = answers.get(name, batch.NOTHING)
    return items(answer.text) if answer.status == 0 else None
