"""Control groups: one for the keeper and one for each node, below one of the rehearsal's own.

nspawn puts a node below the group it was started in. Two nodes in one group would share their services' groups, and
one node's systemd would kill the other's processes. Where systemd is process 1 the rehearsal's group is a scope that
systemd delegates; elsewhere it is a group at the top.
"""

from __future__ import annotations

import contextlib
import os
import signal
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


def _tops(rehearsal: str) -> list[Path]:
    """The rehearsal's group in each hierarchy."""
    own = f"system.slice/hami-{rehearsal}.scope" if _systemd() else f"hami-{rehearsal}"
    return [hierarchy / own for hierarchy in _hierarchies()]


def _systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def launcher(rehearsal: str) -> list[str]:
    """What to put before the keeper's command: with systemd, the scope; it goes when its last process is gone."""
    if not _systemd():
        return []
    return [
        "systemd-run",
        "--scope",
        "--quiet",
        "--collect",
        f"--unit=hami-{rehearsal}.scope",
        "--property=Delegate=yes",
    ]


def create(rehearsal: str, member: str) -> list[Path]:
    """Makes the group of a member; returns the files to which a process writes 0 in order to join."""
    joins = []
    for top in _tops(rehearsal):
        group = top / member
        group.mkdir(parents=True, exist_ok=True)
        joins.append(group / "cgroup.procs")
    return joins


def join(groups: list[Path]) -> None:
    """Moves the calling process."""
    for group in groups:
        group.write_text("0")


def share_controllers(rehearsal: str) -> None:
    """Lets the members have the controllers that the rehearsal's group has; none on a hybrid machine."""
    for top in _tops(rehearsal):
        with contextlib.suppress(OSError):
            names = (top / "cgroup.controllers").read_text().split()
            (top / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))


def remove(rehearsal: str, seconds: float = 10) -> list[Path]:
    """Removes the rehearsal's groups with whatever still lives in them; returns those that stay.

    A group is busy until its last dead process is reaped.
    """
    deadline = time.monotonic() + seconds
    while left := [top for top in _tops(rehearsal) if top.exists()]:
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    for pid in (Path(folder) / "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left
