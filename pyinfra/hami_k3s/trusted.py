"""Facts read once and trusted until something on that host changes in this run.

pyinfra 3.10 caches nothing: every fact is an SSH command. While operations change nothing, a stage's operations may look at
one and the same reading; the first operation on the host that changes something makes the next reader look again. What a
run will want to know when nothing has to be changed is planned by the stages, and read in one command.
"""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pyinfra.api import FactBase, Host
from pyinfra.api.state import StateStage

from hami_k3s.facts import together

T = TypeVar("T")

# host -> (how often it was changed, fact and arguments -> reading)
_readings: WeakKeyDictionary[Host, tuple[int, dict[Any, Any]]] = WeakKeyDictionary()
# By name: in a deploy `host` is a stand-in for whichever host is at work.
_planned: dict[str, dict[Any, tuple[type[FactBase[Any]], dict[str, Any]]]] = {}


def _changes(host: Host) -> int:
    """Operations that have changed this host so far in this run, other people's included."""
    done = [data.operation_meta for data in host.state.ops[host].values()]
    return sum(1 for meta in done if meta.is_complete() and meta.executed)


def _key(fact: type[FactBase[T]], arguments: dict[str, Any]) -> Any:
    return fact, tuple(sorted((name, repr(value)) for name, value in arguments.items()))


def plan(host: Host, fact: type[FactBase[T]], **arguments: Any) -> None:
    """This run will `read` this fact with these arguments: it may be read together with the others that are planned."""
    _planned.setdefault(host.name, {})[_key(fact, arguments)] = (fact, arguments)


def read(host: Host, fact: type[FactBase[T]], **arguments: Any) -> T:
    """The fact, from this run's last reading if nothing on the host has changed since.

    Only for the first reading in an operation's body: after its own commands an operation asks `host.get_fact`.
    """
    if getattr(host.state, "current_stage", None) != StateStage.Execute:
        return host.get_fact(fact, **arguments)
    changes = _changes(host)
    known, readings = _readings.get(host, (-1, {}))
    if known != changes:
        readings = {}
        _readings[host] = (changes, readings)
    key = _key(fact, arguments)
    if key not in readings:
        # Once: after a change most of the others will be changed too, before they are asked for.
        planned = _planned.pop(host.name, {})
        wanted = planned if key in planned else {key: (fact, arguments)}
        readings |= dict(zip(wanted, together.read(host, list(wanted.values())), strict=True))
    found: T = readings[key]
    return found
