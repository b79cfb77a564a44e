"""What was measured, as rows that are printed, kept as JSON and compared."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

OURS, SHELL, ANSIBLE = "pyinfra-hami-k3s", "shell", "ansible"
CONVERGE, NOOP, VERIFY = "converge", "no-op", "verify"


@dataclass(frozen=True)
class Row:
    """One kind of run of one contender. Seconds; MiB; `commands` and `host_cpu_s` are per host."""

    nodes: int
    contender: str
    run: str
    wall_s: float
    cpu_s: float
    memory_mib: float
    commands: float
    host_cpu_s: float
    status: int = 0

    def line(self) -> str:
        """For the terminal."""
        return (
            f"{self.nodes:>5}  {self.contender:<17} {self.run:<9} {self.wall_s:>7.2f} {self.cpu_s:>7.2f} "
            f"{self.memory_mib:>6.0f} {self.commands:>13.1f} {self.host_cpu_s:>10.2f}"
            + (f"   exit status {self.status}" if self.status else "")
        )


HEAD = (
    f"{'nodes':>5}  {'contender':<17} {'run':<9} {'wall s':>7} {'CPU s':>7} {'MiB':>6} {'commands/host':>13}"
    f" {'CPU s/host':>10}"
)


def median(rows: list[Row]) -> Row:
    """The one in the middle by wall time; a failure wins."""
    failed = [row for row in rows if row.status]
    return failed[0] if failed else sorted(rows, key=lambda row: row.wall_s)[(len(rows) - 1) // 2]


@dataclass(frozen=True)
class Factor:
    """How two runs compare, and what this project promises of it."""

    nodes: int
    what: str
    value: float
    holds: bool | None

    def line(self) -> str:
        """For the terminal."""
        promise = {True: "as promised", False: "NOT as promised", None: ""}[self.holds]
        return f"{self.nodes:>5} nodes: {self.what} {self.value:.2f}  {promise}".rstrip()


def factors(rows: Iterable[Row]) -> list[Factor]:
    """Of every size that was measured."""
    good = {(row.nodes, row.contender, row.run): row for row in rows if not row.status}
    found = []
    for nodes in sorted({nodes for nodes, _, _ in good}):
        ours, plain = good.get((nodes, OURS, CONVERGE)), good.get((nodes, SHELL, CONVERGE))
        if ours and plain:
            value = ours.wall_s / plain.wall_s
            what = "first run, times the plain script's time (at most 1.15 on one node):"
            found.append(Factor(nodes, what, value, value <= 1.15 if nodes == 1 else None))
        ours, theirs = good.get((nodes, OURS, NOOP)), good.get((nodes, ANSIBLE, NOOP))
        if ours and theirs:
            value = theirs.wall_s / ours.wall_s
            least = {1: 10, 30: 15}.get(nodes)
            what = "no-op, times faster than Ansible (at least 10 on one node, 15 on 30):"
            found.append(Factor(nodes, what, value, value >= least if least else None))
        most = max(
            (row.memory_mib for row in good.values() if (row.nodes, row.contender) == (nodes, OURS)),
            default=0,
        )
        if most:
            what = "most memory on the control side, MiB (less than 400 for 30 nodes):"
            found.append(Factor(nodes, what, most, most < 400 if nodes <= 30 else None))
    return found


def machine() -> dict[str, Any]:
    """Where and with what it was measured."""
    memory = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    models = [
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "cpu": models[0] if models else platform.machine(),
        "memory_gib": round(int(memory.split()[1]) / 1024**2),
        "python": platform.python_version(),
        "pyinfra": version("pyinfra"),
    }


def keep(path: Path, rows: list[Row], about: dict[str, Any]) -> None:
    """Write the measurements; docs/performance.* are made from them."""
    data = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), **about, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(data, indent=1) + "\n")


def load(path: Path) -> tuple[list[Row], dict[str, Any]]:
    """What `keep` wrote."""
    data = json.loads(path.read_text())
    return [Row(**row) for row in data.pop("rows")], data
