"""Why a host cannot be a GPU node: every problem at once, each with what was seen and how to fix it. Pure functions.

A problem is a decorated function in one of the modules below; what it returns is judged nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hami_k3s.facts.cluster import ClusterState
from hami_k3s.facts.host import HostState
from hami_k3s.preflight import access, card, driver, kubernetes, network, packages, room  # noqa: F401  (fill the catalogue)
from hami_k3s.preflight.access import SUPPORTED
from hami_k3s.preflight.entry import CATALOGUE, Entry, Found, Look, Problem, Unknown
from hami_k3s.settings import Settings

__all__ = [
    "CATALOGUE",
    "SUPPORTED",
    "Entry",
    "Found",
    "Judgement",
    "Look",
    "Problem",
    "Unknown",
    "judge",
    "problems",
]


@dataclass(frozen=True)
class Judgement:
    """Of one host. `problems`: the blocking ones first. `unknown`: code -> why it could not be told."""

    problems: tuple[Problem, ...]
    unknown: Mapping[str, str]

    @property
    def blocking(self) -> tuple[Problem, ...]:
        """Those that stop the host."""
        return tuple(one for one in self.problems if one.severity == "blocks")


def judge(look: Look) -> Judgement:
    """Every problem of this host, and what could not be told."""
    found: list[Problem] = []
    unknown: dict[str, str] = {}
    for one in CATALOGUE:
        if look.settings.k3s_gpu is False and one.judge.__module__ in (card.__name__, driver.__name__):
            continue  # a server without a card is a server
        for said in one.judge(look):
            if isinstance(said, Unknown):
                unknown[one.code] = said.why
                continue
            severity = said.severity or one.severity
            ignored = severity == "blocks" and one.code in look.settings.preflight_ignore
            found.append(
                Problem(
                    one.code,
                    said.seen,
                    said.fix or one.fix,
                    "warns" if ignored else severity,
                    one.why,
                    ignored,
                )
            )
    return Judgement(tuple(sorted(found, key=lambda one: one.severity)), unknown)


def problems(state: HostState, settings: Settings, cluster: ClusterState | None = None) -> list[Problem]:
    """Every problem of a host looked at alone; empty when there is none."""
    return list(judge(Look(state, settings, cluster)).problems)
