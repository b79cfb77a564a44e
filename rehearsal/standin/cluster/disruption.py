"""PodDisruptionBudgets: what an eviction may not go below."""

import math
from typing import Any

from .cluster import is_active, is_leaving, is_ready
from .problem import ProblemError
from .selectors import match_labels
from .store import Store

Object = dict[str, Any]


def check(store: Store, pod: Object) -> None:
    """Refuses an eviction as the API server does. A pod that is not ready may always go."""
    if not is_ready(pod) or is_leaving(pod):
        return
    labels = pod["metadata"].get("labels") or {}
    for budget in store.select("policy/poddisruptionbudgets", pod["metadata"]["namespace"]):
        selector = budget["spec"].get("selector") or {}
        if not match_labels(selector, labels):
            continue
        matching = [
            one
            for one in store.select("pods", pod["metadata"]["namespace"])
            if is_active(one) and match_labels(selector, one["metadata"].get("labels") or {})
        ]
        healthy = sum(1 for one in matching if is_ready(one) and not is_leaving(one))
        needed = _needed(store, budget["spec"], matching)
        if healthy <= needed:
            name = budget["metadata"]["name"]
            text = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
            raise ProblemError(
                429,
                "Cannot evict pod as it would violate the pod's disruption budget.",
                details={"causes": [{"reason": "DisruptionBudget", "message": text}]},
            )


def _needed(store: Store, spec: Object, matching: list[Object]) -> int:
    owners = {
        o["uid"]
        for one in matching
        for o in one["metadata"].get("ownerReferences") or []
        if o.get("controller")
    }
    sets = [one for one in store.select("apps/replicasets") if one["metadata"]["uid"] in owners]
    expected = sum(int(one["spec"].get("replicas", 1)) for one in sets) if sets else len(matching)
    if "minAvailable" in spec:
        return _share(spec["minAvailable"], expected)
    return expected - _share(spec.get("maxUnavailable", 0), expected)


def _share(value: Any, of: int) -> int:
    text = str(value)
    return math.ceil(int(text[:-1]) * of / 100) if text.endswith("%") else int(text)
