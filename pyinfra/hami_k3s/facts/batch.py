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
RS = "\x1e"


def mapping(text: str | None) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    try:
        data = json.loads(text or "null")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def script(probes: Mapping[str, str]) -> str:
    """A POSIX shell script that runs each probe and prints all answers as one line (see `parse`); always exits 0."""
    asked = "".join(f"( {probe}\n)\nprintf '\\n%s\\036' $?\n" for probe in probes.values())
    return (
        f"printf '%s=' '{' '.join(probes)}'; {{ {asked}}} 2>/dev/null </dev/null | base64 | tr -d '\\n'; echo"
    )


def parse(output: list[str]) -> dict[str, Answer]:
    """Name -> Answer, from lines `name name=base64`; others (a login banner) are passed over.

    In the base64 each name has its text and a line with its exit status, and RS between two of them. HTTP's answers have
    `HTTP's status/curl's exit status`: 0 for 2xx, 44 for 404, else 22.
    """
    answers: dict[str, Answer] = {}
    for line in output:
        names, _, encoded = line.partition("=")
        try:
            records = b64decode(encoded, validate=True).decode(errors="replace").removesuffix(RS).split(RS)
            # A text with a separator of its own would move the others to wrong names.
            answers |= {name: _answer(record) for name, record in zip(names.split(), records, strict=True)}
        except (binascii.Error, ValueError):
            continue
    return answers


def _answer(record: str) -> Answer:
    text, _, status = record.rpartition("\n")
    code, http, failed = status.partition("/")
    if http:
        code = "22" if int(failed) else "0" if code.startswith("2") else "44" if code == "404" else "22"
    return Answer(text.rstrip("\n"), int(code))
