"""Outcomes of the lab's evidence, and a run of them written to files that follow the schema."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema

from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.outcome import HostOutcome, NotTested, decide
from hami_k3s.reports.folder import report_directory
from hami_k3s.reports.run import Run
from tests.recorded.lab import PROBE, evidence

STARTED = datetime(2026, 7, 7, 12, 25, 15, tzinfo=timezone(timedelta(hours=2)))
FINISHED = STARTED + timedelta(seconds=42)
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())
assert PROBE.result is not None
NOT_ENFORCED = evidence(probe=replace(PROBE, result=replace(PROBE.result, refused=False, allocated_mib=8704)))


def outcome(found: Evidence | None = None, host: str = "rtx-1", *more: Evidence) -> HostOutcome:
    left_out = (NotTested("durable", "verify_durable is not set"),)
    versions = {"k3s": "v1.36.2+k3s1", "helm": None}
    return decide(host, [found or evidence(), *more], left_out, versions, STARTED, FINISHED)


def written(tmp_path: Path, *outcomes: HostOutcome, language: str = "en") -> tuple[Run, dict[str, Any]]:
    """A finished run and its report.json, which follows the schema."""
    run = Run(report_directory(tmp_path, STARTED), STARTED, language)
    for one in outcomes:
        run.expect(one.host)
    for one in outcomes:
        run.add(one)
    run.close({})
    found = json.loads((run.directory / "report.json").read_text())
    jsonschema.validate(found, SCHEMA)
    return run, found
