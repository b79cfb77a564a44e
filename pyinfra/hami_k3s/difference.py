"""One thing of a host that is not as the settings want it: what makes an operation act, and what drift.py reports."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyinfra.api import Host

NOT_THERE = "not there"


@dataclass(frozen=True)
class Difference:
    """`kind`: file, package, hold, service, label, value and the like; `what`: a path, a name; `found` and `wanted`: in
    words, never the content of a file."""

    kind: str
    what: str
    found: str
    wanted: str


# Of each host, by name: what its operations have found since somebody looked here last.
NOTED: defaultdict[str, list[Difference]] = defaultdict(list)


def noted(host: Host, rows: list[Difference]) -> list[Difference]:
    """The same rows. An operation that decides by them says so here; drift.py shows what it hears."""
    NOTED[host.name].extend(rows)
    return rows


def leaves(found: Any, wanted: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two documents differ: (dotted key, found, wanted); a missing one is None. None exactly when they are equal."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*found, *wanted}, key=str):
            where = f"{path}.{key}" if path else str(key)
            if key not in found or key not in wanted:
                yield where, found.get(key), wanted.get(key)
            else:
                yield from leaves(found[key], wanted[key], where)
    elif json.dumps(found, sort_keys=True) != json.dumps(wanted, sort_keys=True):
        yield path, found, wanted
