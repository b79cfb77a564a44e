"""The claims of verify, in the lab's order, and the judge that decides all of them."""

from __future__ import annotations

from collections.abc import Sequence

from hami_k3s.isolation.claims import (
    allocatable,
    co_resident,
    driver,
    mechanism,
    pending,
    refused,
    registered,
    runtime,
    scheduler_version,
    slice_visible,
    sole_provider,
    webhook,
)
from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence, NotMeasuredError
from hami_k3s.isolation.verdict import Verdict, skipped, unknown

# A claim stands after all those that it needs.
CLAIMS: tuple[Claim, ...] = (
    driver.CLAIM,
    runtime.CLAIM,
    sole_provider.CLAIM,
    scheduler_version.CLAIM,
    webhook.CLAIM,
    registered.CLAIM,
    allocatable.CLAIM,
    co_resident.CLAIM,
    slice_visible.CLAIM,
    refused.CLAIM,
    pending.CLAIM,
    mechanism.CLAIM,
)

__all__ = ["CLAIMS", "Claim", "judge", "unmet"]


def judge(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """One verdict a claim, in order. Nothing that a claim raises gets out: it becomes that claim's error."""
    verdicts: dict[str, Verdict] = {}
    for claim in claims:
        reason = _unmet(claim, verdicts)
        verdicts[claim.id] = skipped(claim.id, reason) if reason else _decide(claim, evidence)
    return list(verdicts.values())


def unmet(claim_id: str, evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> str:
    """Why this claim would be skipped with this evidence, or "". The stage asks before it starts pods."""
    by_id = {verdict.claim: verdict for verdict in judge(evidence, claims)}
    return _unmet(next(claim for claim in claims if claim.id == claim_id), by_id)


def _unmet(claim: Claim, verdicts: dict[str, Verdict]) -> str:
    # A need that is not among the judged claims was left out by the caller, who then answers for it.
    missing = [verdicts[need] for need in claim.needs if need in verdicts and not verdicts[need].status.holds]
    return "; ".join(f"needs {verdict.claim}, which does not hold ({verdict.status})" for verdict in missing)


def _decide(claim: Claim, evidence: Evidence) -> Verdict:
    try:
        return claim.decide(evidence)
    except NotMeasuredError as problem:
        return unknown(claim.id, claim.statement, "not measured", str(problem))
    except Exception as problem:
        why = f"the check itself failed: {type(problem).__name__}: {problem}"
        return unknown(claim.id, claim.statement, "not decided", why, "report it with the JSON report")
