"""What every scheduler checks first: does this pod fit this node, by labels, taints, neighbours and plain resources."""

import re
from typing import Any

from .cluster import Cluster, is_active
from .selectors import match_expression, match_labels

Object = dict[str, Any]
UNITS = {
    "": 1,
    "m": 0.001,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def quantity(text: Any) -> float:
    found = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text))
    if not found or found[2] not in UNITS:
        return float(text)
    return float(found[1]) * UNITS[found[2]]


def requests(pod: Object) -> dict[str, float]:
    total: dict[str, float] = {}
    for container in pod["spec"].get("containers") or []:
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, 0) + quantity(amount)
    return total


def fits_node(spec: Object, node: Object, daemon: bool = False) -> str | None:
    """None, or why not, in kube-scheduler's words."""
    labels = node["metadata"].get("labels") or {}
    affinity_text = "node(s) didn't match Pod's node affinity/selector"
    if any(labels.get(k) != str(v) for k, v in (spec.get("nodeSelector") or {}).items()):
        return affinity_text
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required and not any(_term(t, node) for t in required.get("nodeSelectorTerms") or []):
        return affinity_text
    if (node.get("spec") or {}).get("unschedulable") and not daemon:
        return "node(s) were unschedulable"
    for taint in (node.get("spec") or {}).get("taints") or []:
        skip = daemon and taint["key"].startswith("node.kubernetes.io/")
        if taint["effect"] != "PreferNoSchedule" and not skip and not _tolerated(spec, taint):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    return None


def _term(term: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    return all(match_expression(e, labels) for e in term.get("matchExpressions") or []) and all(
        match_expression(e, fields) for e in term.get("matchFields") or []
    )


def _tolerated(spec: Object, taint: Object) -> bool:
    for toleration in spec.get("tolerations") or []:
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        if toleration.get("operator") == "Exists" and toleration.get("key") in (None, "", taint["key"]):
            return True
        if toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def fits_neighbours(cluster: Cluster, pod: Object, node: Object) -> str | None:
    rules = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    for rule in rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
        key = rule["topologyKey"]
        here = (node["metadata"].get("labels") or {}).get(key)
        namespaces = rule.get("namespaces") or [pod["metadata"]["namespace"]]
        for other in cluster.pods():
            if other["metadata"]["uid"] == pod["metadata"]["uid"] or not is_active(other):
                continue
            place = cluster.store.get("nodes", "", other["spec"].get("nodeName", "")) or {"metadata": {}}
            if (place["metadata"].get("labels") or {}).get(key) != here or here is None:
                continue
            labels = other["metadata"].get("labels") or {}
            if other["metadata"]["namespace"] in namespaces and match_labels(
                rule.get("labelSelector"), labels
            ):
                return "node(s) didn't match pod anti-affinity rules"
    return None


def fits_resources(cluster: Cluster, pod: Object, node: Object, ignored: set[str]) -> list[str]:
    """Each resource that is short, as `Insufficient NAME`."""
    allocatable = node.get("status", {}).get("allocatable") or {}
    used: dict[str, float] = {}
    for other in cluster.pods():
        if other["spec"].get("nodeName") == node["metadata"]["name"] and is_active(other):
            for name, amount in requests(other).items():
                used[name] = used.get(name, 0) + amount
    short = []
    for name, amount in requests(pod).items():
        if name not in ignored and amount > quantity(allocatable.get(name, 0)) - used.get(name, 0):
            short.append(f"Insufficient {name}")
    return short


def summary(reasons: dict[str, int], total: int) -> str:
    """kube-scheduler's one line about nodes that do not fit."""
    text = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    hopeless = all("affinity/selector" in r or "untolerated" in r or "unschedulable" in r for r in reasons)
    why = (
        "Preemption is not helpful for scheduling"
        if hopeless
        else "No preemption victims found for incoming pod"
    )
    after = "no new claims to deallocate, preemption"
    return f"0/{total} nodes are available: {text}. {after}: 0/{total} nodes are available: {total} {why}."
