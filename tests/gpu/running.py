"""Run a probe to its end, or look at the host while it holds its memory."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator

from hami_k3s.isolation.evidence import Card, ProbeRun
from hami_k3s.isolation.parse import QUERY, parse_cards, parse_probe

Record = Callable[[str, str], None]


def query() -> str:
    """The cards as the host's nvidia-smi prints them now."""
    return subprocess.run(QUERY.split(" "), capture_output=True, text=True, check=True).stdout


def finished(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The probe after it has ended."""
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextlib.contextmanager
def holding(
    command: list[str], environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The probe once it is full: (its process, what it printed so far). It lets go at the end of the `with`."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("{"):
                break
        yield process, lines


def ended(pod: str, process: subprocess.Popen[str], lines: list[str], seen: Card) -> ProbeRun:
    """Let go, and the run as evidence."""
    rest, stderr = process.communicate(timeout=120)  # closes stdin, which ends the hold
    stdout = "".join(lines) + rest
    return ProbeRun(
        pod, process.returncode, parse_probe(stdout), stderr, stdout, seen.free_mib, seen.used_mib
    )


def card_now(uuid: str) -> Card:
    """The card as the host sees it now."""
    return next(card for card in parse_cards(query()) if card.uuid == uuid)


def held(command: list[str], environment: dict[str, str], uuid: str) -> tuple[ProbeRun, Card]:
    """The probe's run, and the card as the host saw it while the probe held its memory."""
    with holding(command, environment) as (process, lines):
        meanwhile = card_now(uuid)
        return ended("here", process, lines, meanwhile), meanwhile
