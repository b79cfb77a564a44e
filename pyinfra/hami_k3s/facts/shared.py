"""Facts with two halves: what the host itself answers, and what its cluster's API answers on a server.

On a server both are one command. An agent has no access to the API, so there they are two commands on two hosts.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

T = TypeVar("T")


class Shared(FactBase[T], Generic[T]):
    """A fact whose script is `own(...)` followed by `asked(...)`; both print `name=base64` lines and exit 0."""

    @abstractmethod
    def own(self, *_: Any, **arguments: Any) -> str:
        """The script of the host's half."""

    @abstractmethod
    def asked(self, *_: Any, **arguments: Any) -> str:
        """The script of the server's half; "" when the API is not asked."""

    def both(self, **arguments: Any) -> StringCommand:
        """For `command`, whose arguments pyinfra reads from its signature: both halves in one command."""
        halves = (self.own(**arguments), self.asked(**arguments))
        return StringCommand("; ".join(half for half in halves if half))


class Half(FactBase[list[str]]):
    """
    Returns the lines that the host's half of a fact printed, for the fact's own `process`.

    + script: the half

    .. code:: python

        ["hostname now=Z3B1LTEKMB4xNzY0NTk="]
    """

    default = list

    @override
    def command(self, script: str) -> StringCommand:
        return StringCommand(script)

    @override
    def process(self, output: list[str]) -> list[str]:
        return list(output)
