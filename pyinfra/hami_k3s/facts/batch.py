"""Many questions in one command: a fact is one SSH round trip, so a stage reads its whole state at once."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What one probe printed on stdout, and its exit status (127: the tool is not there)."""

    text: str
    status: int

    @property
    def value(self) -> str | None:
        """The text, or None (unknown) when the probe failed or printed nothing."""
        return self.text if self.status == 0 and self.text else None

    @property
    def number(self) -> float | None:
        """The text as a number, or None."""
        try:
            return float(self.value or "")
        except ValueError:
            return None


NOTHING = Answer("", 255)


def mapping(text: str | None) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    try:
        data = json.loads(text or "null")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def script(probes: Mapping[str, str]) -> str:
    """A POSIX shell script that runs each probe and prints `name=base64`; always exits 0."""
    return "; ".join(
        f'o=$( {{ ( {probe}\n) 2>/dev/null </dev/null; printf "\\n%s" "$?"; }} | base64 | tr -d "\\n"); echo "{name}=$o"'
        for name, probe in probes.items()
    )


def parse(output: list[str]) -> dict[str, Answer]:
    """Name -> Answer. Lines that are not answers (a login banner) are passed over."""
    answers = {}
    for line in output:
        name, _, encoded = line.partition("=")
        try:
            text, _, status = b64decode(encoded, validate=True).decode(errors="replace").rpartition("\n")
            answers[name] = Answer(text.rstrip("\n"), int(status))
        except (binascii.Error, ValueError):
            continue
    return answers
