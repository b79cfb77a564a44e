"""The five words a claim can end with, and the sentence parts every report shows beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The same five words in the terminal, the JSON and the exit status."""

    PASS = "pass"  # measured, and as expected
    FAIL = "fail"  # measured, and not as expected
    WARN = "warn"  # holds, but something about it should be known
    SKIP = "skip"  # not tried, because an earlier claim does not hold
    ERROR = "error"  # could not be measured: never a pass

    @property
    def holds(self) -> bool:
        """Whether claims that build on this one are worth deciding."""
        return self in (Status.PASS, Status.WARN)


@dataclass(frozen=True)
class Verdict:
    """One claim's outcome. `why` says what the observation means, `fix` what to run or to change."""

    claim: str
    status: Status
    expected: str
    observed: str
    why: str = ""
    fix: str = ""


def passed(claim: str, expected: str, observed: str) -> Verdict:
    """The claim was measured and holds."""
    return Verdict(claim, Status.PASS, expected, observed)


def failed(claim: str, expected: str, observed: str, why: str, fix: str) -> Verdict:
    """The claim was measured and does not hold. A failure always says what it means and what to do."""
    return Verdict(claim, Status.FAIL, expected, observed, why, fix)


def warned(claim: str, expected: str, observed: str, why: str, fix: str = "") -> Verdict:
    """The claim holds, with something to know about it."""
    return Verdict(claim, Status.WARN, expected, observed, why, fix)


def unknown(claim: str, expected: str, observed: str, why: str, fix: str = "") -> Verdict:
    """The claim could not be measured, so it is not a pass."""
    return Verdict(claim, Status.ERROR, expected, observed, why, fix)


def skipped(claim: str, why: str) -> Verdict:
    """The claim was not tried because an earlier one does not hold."""
    return Verdict(claim, Status.SKIP, "", f"not tried: {why}", why)


def worst(verdicts: list[Verdict]) -> Status:
    """One word for a host, the worst of its claims. No verdict at all is an error, not a pass."""
    return worst_of(verdict.status for verdict in verdicts)


def worst_of(statuses: Iterable[Status]) -> Status:
    """The worst of several words; of none, error."""
    order = (Status.FAIL, Status.ERROR, Status.SKIP, Status.WARN, Status.PASS)
    seen = set(statuses)
    return next((status for status in order if status in seen), Status.ERROR)
