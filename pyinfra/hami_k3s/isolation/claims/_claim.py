"""What a claim is: one sentence that can turn out false, and the function that decides it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict


@dataclass(frozen=True)
class Claim:
    """`decide` is pure. It may raise NotMeasuredError (through `evidence.measured`), which becomes an error verdict.

    + id: the name in every table and report
    + statement: what is claimed, one sentence
    + proof: what it is measured by
    + step: the lab's step
    + page: what docs/claims.md says about it: measured, passes, fails, warns, error, do
    + scope: decided once for a node, or for each of its cards
    + needs: claims that must hold first; without them this one is skipped
    """

    id: str
    statement: str
    proof: str
    step: str
    decide: Callable[[Evidence], Verdict]
    page: str
    scope: Literal["node", "card"] = "card"
    needs: tuple[str, ...] = ()
