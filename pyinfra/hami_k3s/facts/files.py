"""The files that an operation owns, all in one command."""

from __future__ import annotations

import re
from stat import S_IMODE, S_ISREG

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
        quoted = [QuoteString(path) for path in paths]
        return StringCommand("{ stat -c '%f %n'", *quoted, "; sha256sum", *quoted, "; } 2>/dev/null; true")

    @override
    def process(self, output: list[str]) -> dict[str, tuple[str, str]]:
        modes, found = {}, {}
        for line in output:
            # Anything else is a login banner.
            if match := re.fullmatch(r"([0-9a-f]{1,8}) (/.*)", line):
                modes[match[2]] = int(match[1], 16)
            elif (match := re.fullmatch(r"([0-9a-f]{64})  (/.*)", line)) and S_ISREG(modes.get(match[2], 0)):
                found[match[2]] = (match[1], f"{S_IMODE(modes[match[2]]):o}")
        return found
