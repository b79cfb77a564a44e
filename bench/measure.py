"""Run a command and measure it from outside: wall time, CPU and memory of it and all its children."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """Seconds, CPU seconds, and the most MiB that the process and its children held at once (a sample every 0.2 s)."""

    status: int
    wall_s: float
    cpu_s: float
    memory_mib: float
    output: str


def run(command: list[str], environment: dict[str, str], cwd: Path, log: Path) -> Cost:
    """Run to the end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=cwd, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
        most = [0.0]
        watcher = threading.Thread(target=_watch, args=(process, most), daemon=True)
        watcher.start()
        status = process.wait()
    wall = time.monotonic() - begun
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(status, wall, cpu, most[0], log.read_text(errors="replace"))


def _watch(process: subprocess.Popen[bytes], most: list[float]) -> None:
    while process.poll() is None:
        most[0] = max(most[0], sum(map(_proportional, _family(process.pid))) / 1024)
        time.sleep(0.2)


def _family(root: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _proportional(pid: int) -> int:
    """KiB of a process, pages shared with others counted once (PSS)."""
    try:
        for line in (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
