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
    """The table of one host, its summary line, and why and how to fix what does not hold.

    + width: columns to use; text is wrapped into them, never cut
    """
    width = max(width, NARROWEST)
    rows = [(verdict.claim, str(verdict.status), verdict.expected, verdict.observed) for verdict in verdicts]
    lines = [plain(host), *_table([HEADINGS, *rows], width), "", summary(host, verdicts)]
    for verdict in verdicts:
        if verdict.status not in (Status.PASS, Status.SKIP):  # a skip has its reason in the table
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
        cells = [_wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
        for height in range(max(len(cell) for cell in cells)):
            parts = [cell[height] if height < len(cell) else "" for cell in cells]
            padded = (part.ljust(size) for part, size in zip(parts, widths, strict=True))
            lines.append((" " * GAP).join(padded))
        if number == 0:
            lines.append((" " * GAP).join("-" * size for size in widths))
    return lines


def _wrap(text: str, size: int) -> list[str]:
    # UUIDs and image names are full of hyphens: kept whole where they fit a line.
    return textwrap.wrap(plain(text), size, break_on_hyphens=False) or [""]


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
