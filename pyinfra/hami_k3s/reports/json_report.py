"""One JSON file per host: every verdict, and all that was measured.

It is written whole or not at all, and it is complete too when a host could not be reached: the evidence then has
no parts, and the verdicts say so.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.evidence import Event, Evidence, NotMeasuredError
from hami_k3s.isolation.parse import find_out_of_memory, read_event
from hami_k3s.isolation.verdict import Verdict, worst

SCHEMA_VERSION = 1


def report_directory(root: Path | str, started: datetime) -> Path:
    """`reports/2026-07-07T10-25-15Z`: sorts by time, and holds no character that a file system refuses."""
    return Path(root) / started.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")


def write(
    directory: Path,
    host: str,
    verdicts: Sequence[Verdict],
    evidence: Evidence,
    *,
    started: datetime,
    finished: datetime,
    versions: Mapping[str, str | None] | None = None,
) -> Path:
    """Write `directory/<host>.json` and return its path.

    + versions: what ran on the host (k3s, hami, toolkit, ...), None for unknown
    """
    document = build(host, verdicts, evidence, started=started, finished=finished, versions=versions)
    path = directory / f"{file_name(host)}.json"
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / f".{path.name}.{os.getpid()}.tmp"
    try:
        with unfinished.open("w", encoding="ascii") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def build(
    host: str,
    verdicts: Sequence[Verdict],
    evidence: Evidence,
    *,
    started: datetime,
    finished: datetime,
    versions: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """The document as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "host": host,
        "node": evidence.node,
        "started": _time(started),
        "finished": _time(finished),
        "outcome": worst(list(verdicts)).value,
        "versions": dict(versions or {}),
        "card": _card(evidence),
        "plan": asdict(evidence.plan) if evidence.plan else None,
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "lab": _lab(evidence),
        "evidence": asdict(evidence),
    }


def file_name(host: str) -> str:
    """The host as a file name. A name that had to be changed gets a mark, so that two hosts stay two files."""
    safe = re.sub(r"[^A-Za-z0-9._@-]", "_", host).lstrip(".")[:100] or "host"
    if safe == host:
        return safe
    return f"{safe}-{sha256(host.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _verdict(verdict: Verdict) -> dict[str, str]:
    claim = next((claim for claim in CLAIMS if claim.id == verdict.claim), None)
    about = {"statement": claim.statement, "lab_step": claim.step} if claim else {}
    return {**asdict(verdict), "status": verdict.status.value, **about}


def _card(evidence: Evidence) -> dict[str, Any] | None:
    try:
        return asdict(evidence.card())
    except NotMeasuredError:
        return None


def _lab(evidence: Evidence) -> dict[str, Any]:
    """What the lab shows as its proof: two views of nvidia-smi, HAMi-core's line, the events."""
    line = find_out_of_memory(evidence.probe.stderr) if evidence.probe else None
    pods = (*(evidence.share_pods or ()), *([evidence.overask_pod] if evidence.overask_pod else []))
    return {
        "nvidia_smi_host": evidence.host_smi_text or None,
        "nvidia_smi_pod": evidence.view.text if evidence.view else None,
        "hami_core_line": line.line if line else None,
        "events": {pod.name: [_event(event) for event in pod.events] for pod in pods},
    }


def _event(event: Event) -> dict[str, Any]:
    return {**asdict(event), "meaning": read_event(event).sentence}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
