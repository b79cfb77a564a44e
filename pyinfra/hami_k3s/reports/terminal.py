"""The table that a person reads at the end of verify."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from hami_k3s.isolation.verdict import Status, Verdict, worst
from hami_k3s.reports.plain import plain

HEADINGS = ("claim", "verdict", "expected", "observed")
CLAIM_WIDTH, VERDICT_WIDTH, GAP = 17, 7, 2
NARROWEST = 72


def render(host: str, verdicts: Sequence[Verdict], width: int = 110) -> str:
    """The table of one host, its summary line, and for everything that is not a pass why and how to fix it.

    + width: columns to use; text is wrapped into them, never cut
    """
    width = max(width, NARROWEST)
    rows = [(verdict.claim, str(verdict.status), verdict.expected, verdict.observed) for verdict in verdicts]
    lines = [plain(host), *_table([HEADINGS, *rows], width), "", summary(host, verdicts)]
    for verdict in verdicts:
        if verdict.status is not Status.PASS:
            lines += _explanation(verdict, width)
    return "\n".join(line.rstrip() for line in lines)


def summary(host: str, verdicts: Sequence[Verdict]) -> str:
    """One line: `rtx-1: fail (10 pass, 1 fail, 1 skip; refused, pending)`."""
    counts = [(status, sum(verdict.status is status for verdict in verdicts)) for status in Status]
    parts = ", ".join(f"{count} {status}" for status, count in counts if count) or "no claim was decided"
    bad = [verdict.claim for verdict in verdicts if verdict.status in (Status.FAIL, Status.ERROR)]
    return f"{plain(host)}: {worst(list(verdicts))} ({parts}{'; ' + ', '.join(bad) if bad else ''})"


def _table(rows: Iterable[tuple[str, str, str, str]], width: int) -> list[str]:
    text = (width - CLAIM_WIDTH - VERDICT_WIDTH - 3 * GAP) // 2
    widths = (CLAIM_WIDTH, VERDICT_WIDTH, text, text)
    lines: list[str] = []
    for number, row in enumerate(rows):
        cells = [textwrap.wrap(plain(cell), size) or [""] for cell, size in zip(row, widths, strict=True)]
        for height in range(max(len(cell) for cell in cells)):
            parts = [cell[height] if height < len(cell) else "" for cell in cells]
            padded = (part.ljust(size) for part, size in zip(parts, widths, strict=True))
            lines.append((" " * GAP).join(padded))
        if number == 0:
            lines.append((" " * GAP).join("-" * size for size in widths))
    return lines


def _explanation(verdict: Verdict, width: int) -> list[str]:
    lines = textwrap.wrap(
        f"{verdict.claim} ({verdict.status}): {plain(verdict.why or verdict.observed)}",
        width,
        initial_indent="  ",
        subsequent_indent="    ",
    )
    if verdict.fix:
        # A command must survive being copied: it is only broken between words.
        lines += textwrap.wrap(
            f"to fix: {plain(verdict.fix)}",
            width,
            initial_indent="    ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines
