"""A control group of its own for each node, where no systemd hands one out.

nspawn puts a node below the group it was started in. Two nodes in one group would share their services' groups, and
one node's systemd would kill the other's processes.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


def _hierarchies() -> list[Path]:
    """Where systemd looks: cgroup v2 and, on a hybrid machine, the v1 hierarchy named systemd."""
    found = []
    for line in Path("/proc/mounts").read_text().splitlines():
        _, target, kind, options, *_ = line.split()
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.append(Path(target))
    return found


def needed() -> bool:
    """False where systemd is PID 1: there nspawn asks it for a scope."""
    return not Path("/run/systemd/system").is_dir()


def create(rehearsal: str, node: str) -> list[Path]:
    """Makes the node's groups; returns the files a process writes 0 to in order to join."""
    if not needed():
        return []
    joins = []
    for hierarchy in _hierarchies():
        group = hierarchy / f"hami-{rehearsal}" / node
        group.mkdir(parents=True, exist_ok=True)
        joins.append(group / "cgroup.procs")
    return joins


def remove(rehearsal: str, seconds: float = 10) -> list[Path]:
    """Removes the rehearsal's groups; returns those that stay. A group is busy until its last dead process is reaped."""
    tops = [hierarchy / f"hami-{rehearsal}" for hierarchy in _hierarchies()]
    deadline = time.monotonic() + seconds
    while left := [top for top in tops if top.exists()]:
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left
