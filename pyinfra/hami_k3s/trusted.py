"""Facts read once and trusted until something changes in this run, on the host or in its cluster.

pyinfra 3.10 caches nothing: every fact is an SSH command. While operations change nothing, a stage's operations may look at
one and the same reading, and all agents of a cluster at one and the same answer of its API; the first operation that
changes something makes the next reader look again. What a run will want to know when nothing has to be changed is planned
by the stages, and read in one command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from gevent.lock import BoundedSemaphore  # type: ignore[import-untyped]
from pyinfra.api import FactBase, Host

from hami_k3s import cluster
from hami_k3s.facts import together
from hami_k3s.facts.shared import Half, Shared
from hami_k3s.remote import run

T = TypeVar("T")
Wanted = tuple[type[FactBase[Any]], Mapping[str, Any]]


class _Readings:
    """Of one host, good as long as `changes` stays what it was."""

    def __init__(self) -> None:
        self.changes = -1
        self.known: dict[Any, Any] = {}
        self.lock = BoundedSemaphore(1)


_readings: WeakKeyDictionary[Host, _Readings] = WeakKeyDictionary()
# By name: in a deploy `host` is a stand-in for whichever host is at work.
_planned: dict[str, dict[Any, Wanted]] = {}


def _changes(host: Host) -> int:
    """Operations that have changed this host or another one of its cluster so far in this run."""
    return sum(
        1
        for one in cluster.members(host)
        for data in host.state.ops[one].values()
        if (meta := data.operation_meta).is_complete() and meta.executed
    )


def _of(host: Host) -> _Readings:
    found = _readings.setdefault(host, _Readings())
    changes = _changes(host)
    if found.changes != changes:
        found.changes, found.known = changes, {}
    return found


def _key(fact: type[FactBase[T]], arguments: Mapping[str, Any]) -> Any:
    return fact, tuple(sorted((name, repr(value)) for name, value in arguments.items()))


def plan(host: Host, fact: type[FactBase[T]], **arguments: Any) -> None:
    """This run will `read` this fact with these arguments: it may be read together with the others that are planned."""
    _planned.setdefault(host.name, {})[_key(fact, arguments)] = (fact, arguments)


def keep(host: Host, value: T, fact: type[FactBase[T]], **arguments: Any) -> None:
    """What the operation that ends now has read last, after its own changes: the next reader may trust it."""
    readings = _of(cluster.real(host))
    readings.changes += 1  # this operation's own end
    readings.known = {_key(fact, arguments): value}


def read(host: Host, fact: type[FactBase[T]], **arguments: Any) -> T:
    """The fact, from this run's last reading if nothing has changed since.

    Only for the first reading in an operation's body: after its own commands an operation asks `fresh`.
    """
    if not cluster.executing(host):
        return fresh(host, fact, **arguments)
    readings = _of(cluster.real(host))
    key = _key(fact, arguments)
    if key not in readings.known:
        # Once: after a change most of the others will be changed too, before they are asked for.
        planned = _planned.pop(host.name, {})
        wanted = planned if key in planned else {key: (fact, arguments)}
        readings.known |= dict(zip(wanted, _read(host, list(wanted.values()), True), strict=True))
    found: T = readings.known[key]
    return found


def forget(host: Host) -> None:
    """What this run has read of the host and its cluster is no longer so: something has changed inside an operation."""
    for one in cluster.members(host):
        _readings.pop(one, None)


def fresh(host: Host, fact: type[FactBase[T]], **arguments: Any) -> T:
    """The fact as it is now."""
    found: T = _read(host, [(fact, arguments)], False)[0]
    return found


def _read(host: Host, wanted: list[Wanted], trusting: bool) -> list[Any]:
    """The facts' values. On an agent the halves that the API answers come from a server."""
    if not cluster.is_agent(host):
        return together.read(host, wanted)
    halves = [fact() if issubclass(fact, Shared) else None for fact, _ in wanted]
    here = [
        (Half, {"script": half.own(**arguments)}) if half else (fact, arguments)
        for half, (fact, arguments) in zip(halves, wanted, strict=True)
    ]
    found = together.read(host, here)
    for number, (half, (_, arguments)) in enumerate(zip(halves, wanted, strict=True)):
        if half is not None:
            found[number] = half.process([*found[number], *_asked(host, half.asked(**arguments), trusting)])
    return found


def _asked(host: Host, script: str, trusting: bool) -> list[str]:
    """What the API answers on a server; nothing, which means unknown, when no server can be asked."""
    server = cluster.api(host) if script else None
    if server is None:
        return []
    if not trusting:
        return run(server, script, timeout=120).stdout.splitlines()
    readings = _of(server)
    with readings.lock:  # the other agents wait for the one answer
        if script not in readings.known:
            readings.known[script] = run(server, script, timeout=120).stdout.splitlines()
        found: list[str] = readings.known[script]
        return found
