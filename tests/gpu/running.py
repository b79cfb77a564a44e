"""Run a probe to its end, or look at the host while it holds its memory."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

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


def held(command: list[str], environment: dict[str, str], uuid: str) -> tuple[ProbeRun, Card]:
    """The probe's run, and the card as the host saw it while the probe held its memory."""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("{"):
                break
        meanwhile = next(card for card in parse_cards(query()) if card.uuid == uuid)
        rest, stderr = process.communicate(timeout=120)  # closes stdin, which ends the hold
    stdout = "".join(lines) + rest
    run = ProbeRun(
        "here",
        process.returncode,
        parse_probe(stdout),
        stderr,
        stdout,
        meanwhile.free_mib,
        meanwhile.used_mib,
    )
    return run, meanwhile
