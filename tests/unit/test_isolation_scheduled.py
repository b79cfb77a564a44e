"""A pod that has its node is scheduled, though its container may not run yet: no "Pending" then."""

from dataclasses import replace

from hami_k3s.isolation.claims import pending
from hami_k3s.isolation.verdict import Status
from tests.recorded.lab import OVERASK, evidence


def test_an_overask_that_is_only_about_to_run_was_scheduled() -> None:
    placed = replace(OVERASK, phase="Pending", node="gpu-1", events=())
    verdict = pending.CLAIM.decide(evidence(overask_pod=placed))
    assert verdict.status is Status.FAIL
    assert "scheduled to gpu-1" in verdict.observed
    assert "were scheduled though only" in verdict.why
