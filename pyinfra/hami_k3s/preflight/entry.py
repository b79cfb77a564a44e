"""What a problem is, and how one gets into the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hami_k3s.facts.cluster import ClusterState
from hami_k3s.facts.host import HostState
from hami_k3s.settings import Settings

Severity = Literal["blocks", "warns"]


class Found(NamedTuple):
    """What was seen on this host. `fix` and `severity` replace the entry's own where this host's case is special."""

    seen: str
    fix: str = ""
    severity: Severity | None = None


class Unknown(NamedTuple):
    """It could not be told whether the problem is there, and why not. Never a pass."""

    why: str


@dataclass(frozen=True)
class Look:
    """Everything that was read about one host. `others`: the other hosts of this run, by name."""

    state: HostState
    settings: Settings
    cluster: ClusterState | None = None
    name: str = ""
    others: Mapping[str, Look] = field(default_factory=dict)


Judge = Callable[[Look], Iterable[Found | Unknown]]


@dataclass(frozen=True)
class Entry:
    """One problem of the catalogue. `code` is stable, for programs; `why` one line; `fix` a command or a setting."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str
    judge: Judge


@dataclass(frozen=True)
class Problem:
    """One problem of one host. `ignored`: it would block, and `preflight_ignore` names it."""

    code: str
    seen: str
    fix: str
    severity: Severity = "blocks"
    why: str = ""
    ignored: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.seen}. {self.fix}"


CATALOGUE: list[Entry] = []


def entry(code: str, severity: Severity, title: str, *, why: str, fix: str) -> Callable[[Judge], Judge]:
    """Adds the decorated judge to the catalogue; the order of the files is the order of the reports."""

    def add(judge: Judge) -> Judge:
        CATALOGUE.append(Entry(code, severity, title, why, fix, judge))
        return judge

    return add
