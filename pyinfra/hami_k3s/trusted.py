"""Facts read once and trusted until something on that host changes in this run.

pyinfra 3.10 caches nothing: every fact is an SSH command. While operations change nothing, a stage's operations may look at
one and the same reading; the first operation on the host that changes something makes the next reader look again.
"""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pyinfra.api import FactBase, Host
from pyinfra.api.state import StateStage

T = TypeVar("T")

# host -> (how often it was changed, fact and arguments -> reading)
_readings: WeakKeyDictionary[Host, tuple[int, dict[Any, Any]]] = WeakKeyDictionary()


def _changes(host: Host) -> int:
    """Operations that have changed this host so far in this run, other people's included."""
    done = [data.operation_meta for data in host.state.ops[host].values()]
    return sum(1 for meta in done if meta.is_complete() and meta.executed)


def read(host: Host, fact: type[FactBase[T]], **arguments: Any) -> T:
    """The fact, from this run's last reading if nothing on the host has changed since.

    Only for the first reading in an operation's body: after its own commands an operation asks `host.get_fact`.
    """
    if host.state.current_stage != StateStage.Execute:
        return host.get_fact(fact, **arguments)
    changes = _changes(host)
    known, readings = _readings.get(host, (-1, {}))
    if known != changes:
        readings = {}
        _readings[host] = (changes, readings)
    key = (fact, tuple(sorted((name, repr(value)) for name, value in arguments.items())))
    if key not in readings:
        readings[key] = host.get_fact(fact, **arguments)
    found: T = readings[key]
    return found
