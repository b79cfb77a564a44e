"""Lines as a batch of probes prints them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping


def answered(probes: Mapping[str, object]) -> list[str]:
    """Text; None for a command that is not there; (text, exit status); anything else as JSON."""
    lines = []
    for name, given in probes.items():
        text, status = given if isinstance(given, tuple) else ("", 127) if given is None else (given, 0)
        if not isinstance(text, str):
            text = json.dumps(text)
        encoded = b64encode(f"{text}\n{status}".encode()).decode()
        lines.append(f"{name}={encoded}")
    return lines
