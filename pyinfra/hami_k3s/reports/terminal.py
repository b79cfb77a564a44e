"""The table that a person reads at the end of verify."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from hami_k3s.isolation.outcome import CardOutcome, HostOutcome
from hami_k3s.isolation.verdict import Status, Verdict, worst_of
from hami_k3s.reports.plain import plain, short

HEADINGS = ("claim", "verdict", "expected", "observed")
CLAIM_WIDTH, VERDICT_WIDTH, GAP = 17, 7, 2
NARROWEST = 72


def render(outcome: HostOutcome, width: int = 110) -> str:
    """The table of one host, its summary line, and why and how to fix what does not hold.

    + width: columns to use; text is wrapped into them, never cut
    """
    width = max(width, NARROWEST)
    lines = [plain(outcome.host), *_table([HEADINGS, *map(_row, outcome.node_verdicts)], width)]
    for card in outcome.cards:
        if len(outcome.cards) > 1:
            lines += ["", f"{plain(outcome.host)}, {_label(card)}"]
        lines += _table(map(_row, card.verdicts), width, head=len(outcome.cards) > 1)
    if outcome.not_tested:
        lines += ["", "not tested"]
        for one in outcome.not_tested:
            lines += _paragraph(f"- {short(plain(one.what))}: {plain(one.why)}", width, "  ", "    ")
    explained = _explanations(outcome, width)
    lines += ["", *explained] if explained else []
    lines += ["", summary(outcome)]
    return "\n".join(line.rstrip() for line in lines)


def summary(outcome: HostOutcome) -> str:
    """One line: `rtx-1: fail (16 pass, 1 fail; refused)`."""
    verdicts = outcome.verdicts
    counts = [(status, sum(verdict.status is status for verdict in verdicts)) for status in Status]
    parts = ", ".join(f"{count} {status}" for status, count in counts if count) or "no claim was decided"
    name = plain(outcome.host)
    if outcome.trouble:
        return f"{name}: {outcome.status} ({plain(outcome.trouble)})"
    bad = _names(outcome, (Status.FAIL, Status.ERROR))
    noted = "" if bad else ", ".join(_names(outcome, (Status.WARN,)))
    told = ", ".join(bad) or noted
    cards = f" on {len(outcome.cards)} cards" if len(outcome.cards) > 1 else ""
    return f"{name}: {outcome.status} ({parts}{cards}{'; ' + told if told else ''})"


def fleet(outcomes: Sequence[HostOutcome], rerun: str | None) -> str:
    """One line a host, and one for all of them; with a bad one: which claim, which host."""
    status = worst_of(outcome.status for outcome in outcomes)
    counts = [(word, sum(outcome.status is word for outcome in outcomes)) for word in Status]
    parts = ", ".join(f"{count} {word}" for word, count in counts if count) or "no host was measured"
    bad = [f"{plain(one.host)}: {_trouble(one)}" for one in outcomes if not one.status.holds]
    lines = [] if len(outcomes) == 1 else [summary(outcome) for outcome in outcomes]
    hosts = "1 host" if len(outcomes) == 1 else f"{len(outcomes)} hosts"
    lines.append(f"fleet: {status} ({hosts}: {parts}{'; ' + '; '.join(bad) if bad else ''})")
    if rerun:
        lines.append(f"look again: {plain(rerun)}")
    return "\n".join(lines)


def _trouble(outcome: HostOutcome) -> str:
    return plain(outcome.trouble) or ", ".join(_names(outcome, (Status.FAIL, Status.ERROR)))


def _names(outcome: HostOutcome, words: tuple[Status, ...]) -> list[str]:
    """Claims with one of these words, each once, with the card where there are several."""
    named = [one.claim for one in outcome.node_verdicts if one.status in words]
    several = len(outcome.cards) > 1
    for card in outcome.cards:
        number = f"[{card.card.index}]" if several and card.card else ""
        named += [f"{one.claim}{number}" for one in card.verdicts if one.status in words]
    return list(dict.fromkeys(named))


def _label(card: CardOutcome) -> str:
    if card.card is None:
        return "no card"
    return f"card {card.card.index} ({plain(card.card.name)}, {short(card.card.uuid)})"


def _row(verdict: Verdict) -> tuple[str, str, str, str]:
    return (verdict.claim, str(verdict.status), short(verdict.expected), short(verdict.observed))


def _table(rows: Iterable[tuple[str, str, str, str]], width: int, head: bool = False) -> list[str]:
    """Rows as lines. The first row of the headings is underlined; `head` draws that line above instead."""
    text = (width - CLAIM_WIDTH - VERDICT_WIDTH - 3 * GAP) // 2
    widths = (CLAIM_WIDTH, VERDICT_WIDTH, text, text)
    line = (" " * GAP).join("-" * size for size in widths)
    lines: list[str] = [line] if head else []
    for row in rows:
        cells = [_wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
        for height in range(max(len(cell) for cell in cells)):
            parts = [cell[height] if height < len(cell) else "" for cell in cells]
            padded = (part.ljust(size) for part, size in zip(parts, widths, strict=True))
            lines.append((" " * GAP).join(padded))
        if row == HEADINGS:
            lines.append(line)
    return lines


def _wrap(text: str, size: int) -> list[str]:
    # UUIDs and image names are full of hyphens: kept whole where they fit a line.
    return textwrap.wrap(plain(text), size, break_on_hyphens=False) or [""]


def _explanations(outcome: HostOutcome, width: int) -> list[str]:
    """Why and how to fix, once where several cards have it in common."""
    owners: dict[tuple[str, str], list[str]] = {}
    for verdict in outcome.node_verdicts:
        owners.setdefault(_words(verdict), [])
    several = len(outcome.cards) > 1
    for card in outcome.cards:
        for verdict in card.verdicts:
            mine = owners.setdefault(_words(verdict), [])
            if several and card.card:
                mine.append(f"card {card.card.index}")
    lines: list[str] = []
    for (text, fix), names in owners.items():
        if text:
            lines += _paragraph(f"{text} [{', '.join(names)}]" if names else text, width, "  ", "    ")
        if fix:
            lines += _paragraph(f"to fix: {fix}", width, "    ", "      ")
    return lines


def _words(verdict: Verdict) -> tuple[str, str]:
    """Nothing for a pass, and for a skip, which has its reason in the table."""
    if verdict.status in (Status.PASS, Status.SKIP):
        return "", ""
    return f"{verdict.claim} ({verdict.status}): {plain(verdict.why or verdict.observed)}", plain(verdict.fix)


def _paragraph(text: str, width: int, first: str, others: str) -> list[str]:
    # A command must survive being copied: it is only broken between words.
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
