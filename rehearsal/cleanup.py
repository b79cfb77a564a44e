"""The end of a rehearsal: also of one that was killed, or made only in part."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from rehearsal import cgroups, limits, network
from rehearsal.state import State, root


def alive(state: State) -> bool:
    """Whether its keeper runs."""
    return bool(_processes_of(state))


def down(state: State) -> list[str]:
    """Ends a rehearsal, also a half-made one. Returns what is left, in words; empty when nothing is."""
    for pid in {*_processes_of(state), *network.processes(state.name)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 15
    while (network.processes(state.name) or _processes_of(state)) and time.monotonic() < deadline:
        time.sleep(0.05)
    network.delete(state.name)
    problems = [f"process {pid}" for pid in _processes_of(state)]
    problems += [f"mount {target}" for target in _mounts_of(state)]
    problems += [f"control group {group}" for group in cgroups.remove(state.name)]
    if not any(problem.startswith("mount") for problem in problems):  # never delete through a mount
        shutil.rmtree(state.data, ignore_errors=True)
        shutil.rmtree(state.folder, ignore_errors=True)
    limits.restore()
    for parent in (root(), state.data.parent):
        with contextlib.suppress(OSError):
            parent.rmdir()
    problems += [f"folder {path}" for path in (state.data, state.folder) if path.exists()]
    return problems


def _processes_of(state: State) -> list[int]:
    """The keeper (and its unshare) and nspawn; a node's own processes are found by their control group."""
    marks = (f"--machine={state.name}-".encode(), b"rehearsal.keeper\0" + state.name.encode() + b"\0")
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if any(mark in command for mark in marks):
                    found.append(int(entry.name))
    return found


def _mounts_of(state: State) -> list[str]:
    targets = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [target for target in targets if target.startswith((f"{state.data}/", f"{state.folder}/"))]


def console_tail(state: State) -> str:
    """The last lines of the nodes' consoles, for a boot that failed."""
    tails = []
    for console in sorted(state.folder.glob("*.console")) if state.folder.is_dir() else []:
        lines = console.read_text(errors="replace").splitlines()[-8:]
        tails.append("\n".join([f"{console.stem}:", *lines]))
    return "\n".join(tails)


@contextlib.contextmanager
def quiet_signals() -> Iterator[None]:
    """Cleaning up is not interrupted a second time."""
    before = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
