"""A folder of commands that stands for a host: facts run in it for real, with `sh`, and see only what is put there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from pyinfra.api import FactBase, StringCommand

# What every host has. Everything else (sudo, systemctl, gpg, helm, k3s, nvidia-smi) is missing until a test puts it there.
BASE = (
    *(
        "sh",
        "base64",
        "cat",
        "cut",
        "date",
        "dirname",
        "grep",
        "head",
        "hostname",
        "id",
        "ls",
        "mktemp",
        "printf",
        "readlink",
        "rm",
        "sed",
    ),
    *("sha256sum", "sleep", "stat", "tail", "timeout", "tr", "uname"),
)


class Bin:
    """The only folder on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in BASE:
            self.borrow(name)

    def borrow(self, name: str) -> None:
        """This machine's own command."""
        found = shutil.which(name)
        assert found, f"this machine has no {name}"
        (self.folder / name).symlink_to(found)

    def put(self, name: str, script: str) -> str:
        """A command that is this shell script; gives its path."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def read(self, fact: type[FactBase[Any]], shell: str = "sh", **arguments: Any) -> Any:
        """The fact's value, as pyinfra reads it: the command must end with status 0."""
        one = fact()
        command = one.command(**arguments)
        done = self._run(command.get_raw_value() if isinstance(command, StringCommand) else command, shell)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        return one.process(lines) if lines else one.default()

    def shell(self, script: str, shell: str = "sh") -> list[str]:
        """The lines that a script prints."""
        return self._run(script, shell).stdout.splitlines()

    def _run(self, script: str, shell: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [shutil.which(shell) or shell, "-c", script],
            env={"PATH": str(self.folder), "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
