"""Several facts in one command: each would be a round trip of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyinfra.api import FactBase, Host, StringCommand
from typing_extensions import override

# Before the output of each fact, with its number; no fact prints such a line.
MARK = "\x01"


class Parts:
    """Facts with their arguments; what it looks like in pyinfra's log."""

    def __init__(self, wanted: list[tuple[type[FactBase[Any]], Mapping[str, Any]]]) -> None:
        self.wanted = wanted

    def __iter__(self) -> Iterator[tuple[type[FactBase[Any]], Mapping[str, Any]]]:
        return iter(self.wanted)

    def __str__(self) -> str:
        return ", ".join(fact.__name__ for fact, _ in self.wanted)


class Together(FactBase[list[Any]]):
    """
    Returns the values of several facts, in their order; each must end with status 0, as all of this project do.

    + parts: the facts

    .. code:: python

        [ToolkitState(...), BinaryState(...), {"/etc/systemd/system/k3s.service": ("9f86d0...", "644")}]
    """

    default = list
    _facts: tuple[FactBase[Any], ...] = ()

    @override
    def command(self, parts: Parts) -> StringCommand:
        self._facts = tuple(fact() for fact, _ in parts)
        pieces: list[Any] = []
        for number, (fact, (_, arguments)) in enumerate(zip(self._facts, parts, strict=True)):
            pieces += [f"printf '\\001%s\\n' {number}; (", fact.command(**arguments), ");"]
        return StringCommand(*pieces, "true")

    @override
    def process(self, output: list[str]) -> list[Any]:
        lines: dict[str, list[str]] = {}
        current: list[str] = []
        for line in output:
            if line.startswith(MARK):
                current = lines[line.removeprefix(MARK)] = []
            else:
                current.append(line)
        return [
            fact.process(found) if (found := lines.get(str(number))) else fact.default()
            for number, fact in enumerate(self._facts)
        ]


def read(host: Host, wanted: list[tuple[type[FactBase[Any]], Mapping[str, Any]]], **given: Any) -> list[Any]:
    """The facts' values; `given` are connector arguments. One alone is read as always."""
    if len(wanted) == 1:
        ((fact, arguments),) = wanted
        return [host.get_fact(fact, **arguments, **given)]
    found: list[Any] = host.get_fact(Together, parts=Parts(wanted), **given)
    return found or [fact.default() for fact, _ in wanted]
