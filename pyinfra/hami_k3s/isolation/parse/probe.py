"""The probe's output: one JSON line among whatever else the container printed."""

from __future__ import annotations

import json
from typing import Any

from hami_k3s.isolation.evidence import ProbeResult
from hami_k3s.isolation.parse.errors import ParseError

_WHAT = "probe output"


def parse_probe(stdout: str) -> ProbeResult:
    """The last JSON object with a `refused` key in the text. ParseError when there is none."""
    for line in reversed(stdout.splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict) and "refused" in data:
            return _result(data, line)
    raise ParseError(_WHAT, stdout, "no JSON line with a result")


def _result(data: dict[str, Any], line: str) -> ProbeResult:
    try:
        error = data.get("error")
        return ProbeResult(
            measured=bool(data.get("measured", not error)),
            refused=bool(data["refused"]),
            allocated_mib=int(data["allocated_mib"]),
            chunk_mib=int(data["chunk_mib"]),
            cap_mib=int(data["cap_mib"]),
            rc=int(data.get("rc") or 0),
            rc_name=str(data.get("rc_name") or ""),
            route=str(data.get("route", "sync")),
            free_before_mib=_optional(data.get("free_before_mib")),
            total_mib=_optional(data.get("total_mib")),
            error=str(error) if error else None,
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ParseError(_WHAT, line, f"not a result ({problem})") from None


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
