"""A rehearsal's state folder: what it consists of, written before each thing is made, so that it can be undone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from rehearsal import cache
from rehearsal.errors import RehearsalError

DEFAULT = "default"


def root() -> Path:
    """/run/hami-rehearsal, or .rehearsal in the current folder where /run cannot be written."""
    for folder in (Path("/run/hami-rehearsal"), Path.cwd() / ".rehearsal"):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise RehearsalError("neither /run nor the current folder can be written")


class State:
    """`state.json` and the paths of one rehearsal."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,19}", name):
            raise RehearsalError(f"{name!r} is no name for a rehearsal: 1 to 20 of a-z, 0-9 and -")
        self.name = name
        self.folder = root() / name
        self.file = self.folder / "state.json"
        # Nodes write here; on the cache's disk, since /run is memory on most machines.
        self.data = cache.root() / "running" / name

    def read(self) -> dict[str, Any]:
        """Empty when there is no such rehearsal."""
        try:
            content: dict[str, Any] = json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}
        return content

    def write(self, **values: Any) -> dict[str, Any]:
        """Merges `values` in and replaces the file in one step."""
        content = self.read() | values
        replace(self.file, json.dumps(content, indent=1) + "\n")
        return content

    @property
    def fleet(self) -> Path:
        """The file for GPU_FLEET."""
        return self.folder / "fleet.yaml"

    def node_folder(self, node: str) -> Path:
        """What is bound to /etc/rehearsal of a node."""
        return self.folder / "nodes" / node


def replace(path: Path, text: str) -> None:
    """Writes under another name, then renames: a reader sees the old text or the new."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.rename(path)


def names() -> list[str]:
    """Every rehearsal that has a state folder."""
    return sorted(folder.name for folder in root().iterdir() if folder.is_dir())


def require(name: str) -> State:
    """The state of a rehearsal that is up, or an error that says what is."""
    state = State(name)
    if not state.file.exists():
        known = ", ".join(names()) or "none"
        raise RehearsalError(
            f"no rehearsal named {name} (up: {known}). Start one with: python -m rehearsal up --name {name}"
        )
    return state
