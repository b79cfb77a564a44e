"""One part of the lab's evidence is changed: what must happen to the claim in question, and to the others."""

from __future__ import annotations

from typing import Any

import pytest

from hami_k3s.isolation.claims import CLAIMS, judge
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Status, Verdict
from tests.recorded.lab import evidence

# what is changed, the claim, its status then, the changed parts, words of the verdict
Case = tuple[str, str, Status, dict[str, Any], str]


def parameters(cases: list[Case]) -> list[Any]:
    """The cases for pytest.mark.parametrize, each with a readable id."""
    return [pytest.param(*case[1:], id=f"{case[1]}: {case[0]}") for case in cases]


def verdicts(found: Evidence) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in judge(found)}


def check(claim: str, status: Status, changes: dict[str, Any], words: str) -> None:
    """This claim, with these words, and only this one: the others hold, or are skipped because they need it."""
    found = verdicts(evidence(**changes))
    verdict = found[claim]
    assert verdict.status is status, verdict
    assert words in f"{verdict.observed} {verdict.why} {verdict.fix}"
    if status is Status.FAIL:
        assert verdict.why
        assert verdict.fix
    others = {name: other.status for name, other in found.items() if name != claim}
    needing = {one.id for one in CLAIMS if depends_on(one.id, claim)} if not status.holds else set()
    assert {name for name, other in others.items() if other is Status.SKIP} == needing
    assert all(other is Status.PASS for name, other in others.items() if name not in needing)


def depends_on(claim: str, need: str) -> bool:
    needs = next(one for one in CLAIMS if one.id == claim).needs
    return need in needs or any(depends_on(one, need) for one in needs)
