"""The folder of a run, and files in it that are whole or not there."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from hami_k3s import command_line


def report_directory(root: Path | str, started: datetime) -> Path:
    """`reports/2026-07-07T10-25-15Z`: sorts by time, and holds no character that a file system refuses."""
    return Path(root) / started.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")


@cache
def run_directory(root: str) -> Path:
    """The folder of this process' run. A run that began in the same second has another one. Never raises: what cannot be
    made is noticed by whoever writes there."""
    path = report_directory(root, command_line.STARTED)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir()
        except FileExistsError:
            path = path.with_name(f"{path.name}-{os.getpid()}")
    return path


def to_json(data: dict[str, Any]) -> str:
    """ASCII only: any terminal shows it, whatever hosts are called."""
    return json.dumps(data, indent=2) + "\n"


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all. Errors: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
