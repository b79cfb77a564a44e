"""What differs from what the settings want: a table for each host, one summary of the fleet, and the same as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from hami_k3s import command_line
from hami_k3s.difference import NOT_THERE
from hami_k3s.looking import Found
from hami_k3s.reports.plain import plain

WIDTH, PART, KIND = 110, 17, 8
# Without a part that is not installed there is nothing to look at in these.
NEEDS = {"k3s": ("Label", "HAMi")}


def installed(rows: Sequence[Found]) -> tuple[list[Found], dict[str, str]]:
    """(The rows of parts that are there, part -> the version wanted of those that are not there at all.)"""
    bare: dict[str, str] = {}
    for part in dict.fromkeys(row.part for row in rows):
        main = [row.difference for row in rows if row.part == part and row.difference.kind in MAIN]
        if main and all(one.found == NOT_THERE for one in main) and _whole(part, main):
            bare[part] = main[0].wanted
    gone = {*bare, *(other for part in bare for other in NEEDS.get(part, ()))}
    bare |= {
        row.part: row.difference.wanted
        for row in rows
        if row.part in gone and row.difference.kind == "release"
    }
    return [row for row in rows if row.part not in gone], bare


# Without them a part is not there, whatever else is missing.
MAIN = ("binary", "link", "package", "release")


def _whole(part: str, main: Sequence[Any]) -> bool:
    """Are all of its main things missing? A k3s of another version has its link, a half-removed toolkit some packages."""
    kinds = [one.kind for one in main]
    return {"binary", "link"} <= set(kinds) or kinds.count("package") == 4 or "release" in kinds


def table(name: str, rows: Sequence[Found]) -> str:
    """A line for each difference, under its host's name."""
    there, bare = installed(rows)
    many = len(there) + len(bare)
    head = (
        f"{plain(name)}: {many} difference{'s' if many > 1 else ''}" if many else f"{plain(name)}: as wanted"
    )
    lines = [head]
    for part, version in bare.items():
        lines.append(f"  {part:<{PART}} not installed{f', wanted {version}' if version else ''}")
    for row in there:
        one = row.difference
        begin = f"  {row.part:<{PART}} {one.kind:<{KIND}} "
        text = plain(f"{one.what}: {one.found}; wanted: {one.wanted}")
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=begin, subsequent_indent=" " * len(begin), break_on_hyphens=False
        )
    return "\n".join(lines)


def as_data(rows: Sequence[Found]) -> dict[str, Any]:
    """A host's part of the JSON."""
    there, bare = installed(rows)
    found = [
        {"part": part, "kind": "part", "what": part, "found": "not installed", "wanted": version}
        for part, version in bare.items()
    ]
    found += [
        {
            "part": row.part,
            "kind": row.difference.kind,
            "what": row.difference.what,
            "found": row.difference.found,
            "wanted": row.difference.wanted,
        }
        for row in there
    ]
    return {"differs": bool(found), "differences": found}


def document(
    hosts: Mapping[str, Sequence[Found]], lost: Mapping[str, str], fix: str | None
) -> dict[str, Any]:
    """The whole JSON.

    + lost: hosts that could not be read, and why
    + fix: the command that makes hosts as wanted; None when all are
    """
    differ = sum(bool(rows) for rows in hosts.values())
    return {
        "started": command_line.STARTED.isoformat(timespec="seconds"),
        "summary": {
            "hosts": len(hosts) + len(lost),
            "as_wanted": len(hosts) - differ,
            "differ": differ,
            "not_read": len(lost),
        },
        "hosts": {name: as_data(rows) for name, rows in hosts.items()},
        "not_read": dict(lost),
        "fix": fix,
    }


def summary(hosts: Mapping[str, Sequence[Found]], lost: Mapping[str, str], fix: str | None) -> str:
    """The fleet on a few lines, the last one the command that makes its hosts as wanted."""
    differ = [name for name, rows in hosts.items() if rows]
    total = len(hosts) + len(lost)
    head = (
        f"{total} host{'s' if total != 1 else ''}: {len(hosts) - len(differ)} as wanted, {len(differ)} differ"
    )
    lines = [head + (f", {len(lost)} not read" if lost else "")]
    lines += [f"  not read: {plain(name)} ({plain(why)})" for name, why in lost.items()]
    return "\n".join([*lines, *([f"to make them as wanted: {fix}"] if fix else [])])
