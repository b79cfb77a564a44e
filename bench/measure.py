"""Run a command and measure it from outside: wall time, CPU and memory of it and all its children."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.25  # seconds between two looks at the memory


@dataclass(frozen=True)
class Cost:
    """Seconds, CPU seconds, the most MiB that the process and its descendants held at once, and its most open files."""

    status: int
    wall_s: float
    cpu_s: float
    memory_mib: float
    files: int
    output: str


def run(command: list[str], environment: dict[str, str], cwd: Path, log: Path) -> Cost:
    """Run to the end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=cwd, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
        most = [0.0, 0.0]
        watcher = threading.Thread(target=_watch, args=(process, most), daemon=True)
        watcher.start()
        status = process.wait()
    wall = time.monotonic() - begun
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(status, wall, cpu, most[0], int(most[1]), log.read_text(errors="replace"))


def _watch(process: subprocess.Popen[bytes], most: list[float]) -> None:
    while process.poll() is None:
        most[0] = max(most[0], sum(map(_proportional, _family(process.pid))) / 1024)
        most[1] = max(most[1], _files(process.pid))
        time.sleep(EVERY)


def _files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _family(root: int) -> list[int]:
    """The process and its descendants."""
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def _proportional(pid: int) -> int:
    """KiB of a process, pages shared with others counted once (PSS)."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
