"""The claims of verify, in the lab's order, and the judge that decides all of them."""

from __future__ import annotations

from collections.abc import Sequence

from hami_k3s.isolation.claims import (
    allocatable,
    co_resident,
    control,
    driver,
    durable,
    mechanism,
    neighbour,
    no_request,
    pending,
    pending_control,
    refused,
    registered,
    routes,
    runtime,
    scheduler_version,
    slice_visible,
    sole_provider,
    webhook,
)
from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence, NotMeasuredError
from hami_k3s.isolation.verdict import Verdict, skipped, unknown

# In the lab's order, which is that of every table. A claim may need one that stands below it.
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
    neighbour.CLAIM,
    control.CLAIM,
    pending.CLAIM,
    pending_control.CLAIM,
    mechanism.CLAIM,
    routes.CLAIM,
    no_request.CLAIM,
    durable.CLAIM,
)
# Only with `verify_durable`: it restarts k3s.
OPTIONAL = ("durable",)

__all__ = ["CLAIMS", "OPTIONAL", "Claim", "judge", "unmet"]


def judge(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """One verdict a claim, in order. Nothing that a claim raises gets out: it becomes that claim's error.

    An optional claim that nobody asked for is left out, unless its evidence is there.
    """
    asked = [claim for claim in claims if claim.id not in OPTIONAL or _asked(claim, evidence)]
    by_id = {claim.id: claim for claim in asked}
    verdicts: dict[str, Verdict] = {}

    def settle(claim: Claim) -> None:
        for need in claim.needs:
            if need in by_id and need not in verdicts:
                settle(by_id[need])
        reason = _unmet(claim, verdicts)
        verdicts[claim.id] = skipped(claim.id, reason) if reason else _decide(claim, evidence)

    for claim in asked:
        if claim.id not in verdicts:
            settle(claim)
    return [verdicts[claim.id] for claim in asked]


def unmet(claim_id: str, evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> str:
    """Why this claim would be skipped with this evidence, or "". The proof asks before it goes on."""
    by_id = {verdict.claim: verdict for verdict in judge(evidence, claims)}
    return _unmet(next(claim for claim in claims if claim.id == claim_id), by_id)


def _asked(claim: Claim, evidence: Evidence) -> bool:
    return getattr(evidence, claim.id) is not None or claim.id in evidence.errors


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
