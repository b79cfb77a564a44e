"""Text from hosts, made safe to print: a node's name or an event must not move the reader's cursor."""

from __future__ import annotations

import re

# Colours and cursor movements, whole: otherwise their letters would stay behind.
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_UUID = re.compile(r"\bGPU-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def plain(text: str) -> str:
    """One line without control characters, colours or invisible direction marks."""
    one_line = re.sub(r"\s+", " ", _ANSI.sub("", text)).strip()
    return "".join(char if char.isprintable() else "?" for char in one_line)


def block(text: str) -> str:
    """The same for text of several lines: its lines and columns stay."""
    lines = _ANSI.sub("", text).replace("\r\n", "\n").replace("\t", "    ").split("\n")
    safe = ["".join(char if char.isprintable() else "?" for char in line).rstrip() for line in lines]
    return "\n".join(safe).strip("\n")


def short(text: str) -> str:
    """Card UUIDs in a form that fits a line: `GPU-3c4a3856…`."""
    return _UUID.sub(r"GPU-\1…", text)
