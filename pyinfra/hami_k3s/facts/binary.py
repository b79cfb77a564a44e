"""A released binary under its versioned path, and the public name that points to it."""

from __future__ import annotations

from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand
from typing_extensions import override


@dataclass(frozen=True)
class BinaryState:
    """`there`: the versioned file exists; `link` is what the public name is: a link's target, "file", or "" for nothing."""

    machine: str = ""
    there: bool = False
    link: str = ""


class Binary(FactBase[BinaryState]):
    """
    Returns a `BinaryState`.

    + versioned: path of the verified file
    + public: the name that users call

    .. code:: python

        BinaryState(machine="x86_64", there=True, link="/usr/local/lib/hami-k3s/helm-v4.2.3")
    """

    default = BinaryState

    @override
    def command(self, versioned: str, public: str) -> StringCommand:
        return StringCommand(
            "uname -m; [ -x",
            QuoteString(versioned),
            "] && echo yes || echo no; if [ -L",
            QuoteString(public),
            "]; then readlink",
            QuoteString(public),
            "; elif [ -e",
            QuoteString(public),
            "]; then echo file; else echo; fi",
        )

    @override
    def process(self, output: list[str]) -> BinaryState:
        machine, there, link = ([*output, "", "", ""])[:3]
        return BinaryState(machine, there == "yes", link)
