"""What preflight found: a table for each host, one summary of the fleet, and the same as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hami_k3s.preflight import Judgement
from hami_k3s.reports.plain import plain

WIDTH, CODE, WORD = 110, 21, 8


def _lines(word: str, code: str, text: str) -> list[str]:
    head = f"  {word:<{WORD}} {code:<{CODE}} "
    return textwrap.wrap(plain(text), WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [
        head.rstrip()
    ]


def table(name: str, found: Judgement) -> str:
    """Worst first: what blocks, what warns, what could not be told."""
    state = "BLOCKED" if found.blocking else "ready"
    lines = [f"{plain(name)}: {state}"]
    for one in found.problems:
        ignored = " (would block; preflight_ignore names it)" if one.ignored else ""
        lines += _lines(one.severity, one.code, one.seen + ignored)
        lines += _lines("", "", f"why: {one.why}")
        lines += _lines("", "", f"fix: {one.fix}")
    if not found.problems:
        lines.append("  no problem found")
    for code, why in found.unknown.items():
        lines += _lines("unknown", code, why)
    return "\n".join(lines)


def as_data(found: Judgement) -> dict[str, Any]:
    """A host's part of the JSON."""
    return {
        "ready": not found.blocking,
        "problems": [
            {
                "code": one.code,
                "severity": one.severity,
                "ignored": one.ignored,
                "seen": one.seen,
                "why": one.why,
                "fix": one.fix,
            }
            for one in found.problems
        ],
        "unknown": dict(found.unknown),
    }


def summary(hosts: Mapping[str, Judgement], lost: Mapping[str, str]) -> str:
    """How many hosts are ready, blocked and by which codes, and not reached."""
    blocked = {name: found for name, found in hosts.items() if found.blocking}
    total = len(hosts) + len(lost)
    head = (
        f"{total} host{'s' if total != 1 else ''}: {len(hosts) - len(blocked)} ready, {len(blocked)} blocked"
    )
    lines = [head + (f", {len(lost)} not reached" if lost else "")]
    codes: dict[str, list[str]] = {}
    for name, found in blocked.items():
        for code in dict.fromkeys(one.code for one in found.blocking):
            codes.setdefault(code, []).append(plain(name))
    for code, names in sorted(codes.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"  {code:<{CODE}} {len(names):>3}  {', '.join(names)}")
    lines += [f"  not reached: {plain(name)} ({plain(why)})" for name, why in lost.items()]
    return "\n".join(lines)


class Run:
    """The hosts of this run, and the folder for their JSON."""

    def __init__(self) -> None:
        self.started = datetime.now(UTC)
        self.hosts: dict[str, Judgement] = {}
        self.folder: str | None = None

    def add(self, name: str, found: Judgement, folder: str) -> None:
        """One host is judged."""
        self.hosts[name] = found
        self.folder = folder

    def write(self, lost: Mapping[str, str]) -> Path:
        """`preflight-2026-07-07T10-25-15Z.json` in the folder. Errors: OSError."""
        path = (
            Path(self.folder or "reports") / f"preflight-{self.started.strftime('%Y-%m-%dT%H-%M-%SZ')}.json"
        )
        blocked = sum(bool(found.blocking) for found in self.hosts.values())
        content = {
            "started": self.started.isoformat(timespec="seconds"),
            "summary": {
                "hosts": len(self.hosts) + len(lost),
                "ready": len(self.hosts) - blocked,
                "blocked": blocked,
                "not_reached": len(lost),
            },
            "hosts": {name: as_data(found) for name, found in self.hosts.items()},
            "not_reached": dict(lost),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


RUN = Run()
