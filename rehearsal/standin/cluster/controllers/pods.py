"""Pods made from templates, for the controllers of workloads."""

import copy
import hashlib
import json
from typing import Any

from .. import events, log
from ..cluster import Cluster, owner_reference
from ..defaults import suffix
from ..problem import ProblemError

Object = dict[str, Any]


def template_hash(template: Object) -> str:
    text = json.dumps(template, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "".join("bcdfghjklmnpqrstvwxz2456789"[int(digest[n : n + 2], 16) % 27] for n in range(0, 20, 2))


def create(cluster: Cluster, owner: Object, template: Object, source: str, **spec: Any) -> Object | None:
    """A pod of that template; a refusal becomes a FailedCreate event of the owner."""
    meta = copy.deepcopy(template.get("metadata") or {})
    name = f"{owner['metadata']['name']}-{suffix()}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": f"{owner['metadata']['name']}-",
            "labels": meta.get("labels") or {},
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {**copy.deepcopy(template["spec"]), **spec},
    }
    if not pod["metadata"]["annotations"]:
        del pod["metadata"]["annotations"]
    try:
        made = cluster.objects.create(cluster.resource("pods"), owner["metadata"]["namespace"], pod)
    except ProblemError as refused:
        log.warning(f"{source}: cannot create a pod of {owner['metadata']['name']}: {refused.message}")
        text = f"Error creating: {refused.message}"
        events.emit(cluster.store, owner, "Warning", "FailedCreate", text, source)
        return None
    events.emit(cluster.store, owner, "Normal", "SuccessfulCreate", f"Created pod: {name}", source)
    return made


def delete(cluster: Cluster, owner: Object, pod: Object, source: str) -> None:
    meta = pod["metadata"]
    cluster.objects.delete(cluster.resource("pods"), meta["namespace"], meta["name"], {})
    events.emit(cluster.store, owner, "Normal", "SuccessfulDelete", f"Deleted pod: {meta['name']}", source)
