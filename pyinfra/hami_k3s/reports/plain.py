"""Text from hosts, made safe to print: a node's name or an event must not move the reader's cursor."""

from __future__ import annotations

import re

# Colours and cursor movements, whole: otherwise their letters would stay behind.
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")


def plain(text: str) -> str:
    """One line without control characters, colours or invisible direction marks."""
    one_line = re.sub(r"\s+", " ", _ANSI.sub("", text)).strip()
    return "".join(char if char.isprintable() else "?" for char in one_line)
