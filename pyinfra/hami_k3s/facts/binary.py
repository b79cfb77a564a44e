"""A released binary under its versioned path, and the public name that points to it."""

from __future__ import annotations

from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand
from typing_extensions import override


@dataclass(frozen=True)
class BinaryState:
    """`there`: the versioned file exists; `link` is what the public name is: a link's target, "file", or "" for nothing.
    `sha256`: the sum that the released file had, "" when it is not known."""

    machine: str = ""
    there: bool = False
    link: str = ""
    sha256: str = ""


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
            "]; then echo file; else echo; fi; cat",
            QuoteString(f"{versioned}.sha256"),
            "2>/dev/null || echo",
        )

    @override
    def process(self, output: list[str]) -> BinaryState:
        machine, there, link, sha256 = ([*output, "", "", "", ""])[:4]
        return BinaryState(machine, there == "yes", link, sha256)
