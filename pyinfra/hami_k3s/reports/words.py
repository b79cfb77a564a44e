"""The report's own words in English and Chinese. What hosts and tools said stays as they said it."""

from __future__ import annotations

from typing import Any

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.tolerances import TOLERANCES
from hami_k3s.reports.words_zh import CHINESE, CLAIMS_ZH, TOLERANCES_ZH

ENGLISH: dict[str, Any] = {
    "title": "GPU isolation report",
    "status": {"pass": "pass", "fail": "fail", "warn": "warn", "skip": "skip", "error": "error"},
    "meaning": {
        "pass": "measured, and as expected",
        "warn": "holds, but there is something to know",
        "fail": "measured, and not as expected",
        "error": "could not be measured; never counted as a pass",
        "skip": "not tried: a claim that it builds on does not hold",
    },
    "verdict": {
        "pass": "Every claim holds on every card.",
        "warn": "Every claim holds; some come with something to know.",
        "fail": "At least one claim does not hold.",
        "error": "Something could not be measured. That is not a pass.",
        "skip": "Not every claim was tried.",
    },
    "fleet": "The fleet at a glance",
    "host": "host",
    "node": "node",
    "card": "card",
    "claims_of_node": "Node",
    "claims": "Claims",
    "claim": "claim",
    "result": "verdict",
    "expected": "expected",
    "observed": "observed",
    "why": "what it means",
    "fix": "to fix",
    "proof": "measured by",
    "evidence": "evidence",
    "lab_step": "lab step",
    "versions": "Versions",
    "unknown": "unknown",
    "not_tested": "Not tested, and why",
    "rerun": "Look again at what does not hold",
    "incomplete": "This run was interrupted. What was not measured counts as an error.",
    "memory": "The card's memory, both slices full",
    "no_memory": "No memory was allocated on this card.",
    "host_saw": "the host saw free at that moment",
    "first": "first pod",
    "second": "second pod, at the same time",
    "control": "control, without HAMi-core",
    "other": "CUDA contexts and others",
    "free": "free",
    "limit": "slice",
    "refused_after": "refused after",
    "not_refused": "not refused, stopped at",
    "overask": "over-ask",
    "beside": "left beside the slices",
    "does_not_fit": "does not fit, so it must stay Pending",
    "card_ends": "in the last bar: where the card ends",
    "limit_line": "above: where the slice ends",
    "tolerances": "By what bands it is judged",
    "band": "band",
    "legend": "Verdicts",
    "is_title": "What this is, and what it is not",
    "is": [
        "Software isolation: HAMi-core stands between a process and the CUDA driver and refuses allocations past the slice.",
        "It is not MIG's hardware partition, and not a security boundary: it holds well-behaved programs, not hostile ones.",
        "A process that clears the limit's variable (CUDA_DEVICE_MEMORY_LIMIT_0) escapes it; so do static or musl binaries and "
        "privileged containers.",
        "Routes that HAMi-core does not count (in HAMi 2.9.0: memory pools and arrays) get past the slice; the claim routes "
        "says which on this node.",
        "Compute shares (gpucores) and a neighbour's speed are not measured.",
    ],
    "footer": "Values from hosts are shown as text, in their own words.",
    "routes_title": "How memory was asked for",
}


def words(language: str) -> dict[str, Any]:
    """The words of one language. `claims` and `tolerance_why` are by id."""
    claims = {claim.id: claim.statement for claim in CLAIMS}
    why = {tolerance.name: tolerance.why for tolerance in TOLERANCES}
    if language != "zh":
        return {**ENGLISH, "statements": claims, "tolerance_why": why}
    return {
        **ENGLISH,
        **CHINESE,
        "statements": {**claims, **CLAIMS_ZH},
        "tolerance_why": {**why, **TOLERANCES_ZH},
    }
