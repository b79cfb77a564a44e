"""The files that an operation owns, all in one command."""

from __future__ import annotations

import re

from pyinfra.api import FactBase, QuoteString, StringCommand
from typing_extensions import override


class Digests(FactBase[dict[str, tuple[str, str]]]):
    """
    Returns path -> (sha256, mode); a path that is missing or not a plain file is left out.

    .. code:: python

        {"/etc/systemd/system/k3s.service": ("9f86d0...", "644")}
    """

    default = dict

    @override
    def command(self, paths: list[str]) -> StringCommand:
        return StringCommand(
            "for f in",
            *[QuoteString(path) for path in paths],
            '; do [ -f "$f" ] && [ ! -L "$f" ] && echo "$(sha256sum <"$f" | cut -c 1-64) $(stat -c %a "$f") $f"; done; true',
        )

    @override
    def process(self, output: list[str]) -> dict[str, tuple[str, str]]:
        found = {}
        for line in output:
            # Anything else is a login banner.
            if match := re.fullmatch(r"([0-9a-f]{64}) ([0-7]+) (/.*)", line):
                found[match[3]] = (match[1], match[2])
        return found
