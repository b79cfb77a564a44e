"""The real `pyinfra` command, started as a user would, and what it said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")
GPU_NODE, VERIFY, RESET = "deploys/gpu_node.py", "deploys/verify.py", "deploys/reset.py"


@dataclass(frozen=True)
class Counts:
    """One line of pyinfra's result table."""

    hosts: int
    success: int
    error: int
    unchanged: int


@dataclass(frozen=True)
class Ran:
    """Exit status and the whole output, stderr included."""

    status: int
    text: str

    @property
    def results(self) -> dict[str, Counts]:
        """Operation -> counts, from the result table, its total left out."""
        table = self.text.partition("--> Results:")[2]
        rows = re.findall(r"^ +(\S.*?) {2,}(\d+|-) +(\d+|-) +(\d+|-) +(\d+|-) *$", table, re.MULTILINE)
        numbers = {row[0]: [0 if cell == "-" else int(cell) for cell in row[1:]] for row in rows}
        return {name: Counts(*row) for name, row in numbers.items() if name != "Grand total"}

    @property
    def changed(self) -> list[str]:
        """Operations that did something on some host, or failed."""
        return [name for name, row in self.results.items() if row.unchanged != row.hosts]

    @property
    def last(self) -> str:
        """The operation that was started last: where a run of one host failed."""
        return re.findall(r"^--> Starting operation: (.*?) *$", self.text, re.MULTILINE)[-1]

    def on(self, host: str) -> str:
        """The lines of one host."""
        return "\n".join(line for line in self.text.splitlines() if f"[{host}]" in line)


def fleet(path: Path, *nodes: Any, **settings: object) -> Path:
    """A fleet file for these nodes (of any rehearsals), with further settings; reports go beside it."""
    hosts = []
    shared: dict[str, object] = {"report_folder": str(path.parent / "reports")}
    for node in nodes:
        content = yaml.safe_load(node.state.fleet.read_text())
        shared |= content["settings"]
        hosts += [host for host in content["hosts"] if host["name"] == node.name]
    path.write_text(yaml.safe_dump({"hosts": hosts, "settings": shared | settings}))
    return path


def command(deploy: str, *options: str, inventory: str = "inventory.py") -> list[str]:
    """What a person types."""
    yes = [] if "--dry" in options else ["-y"]  # which would leave the look at changes out
    return [str(PYINFRA), inventory, deploy, *yes, *options]


def environment(fleet_file: Path) -> dict[str, str]:
    """For that command."""
    return dict(os.environ, GPU_FLEET=str(fleet_file), PYTHONUNBUFFERED="1")


def deploy(fleet_file: Path, what: str, *options: str, cwd: Path = REPOSITORY, **data: object) -> Ran:
    """Runs a deploy to its end; `data` becomes --data key=value."""
    pairs = [word for key, value in data.items() for word in ("--data", f"{key}={value}")]
    done = subprocess.run(
        command(what, *options, *pairs),
        cwd=cwd,
        env=environment(fleet_file),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout)


def start(fleet_file: Path, what: str, *options: str) -> subprocess.Popen[str]:
    """A deploy to be interrupted; in a process group of its own, as a shell would start it."""
    return subprocess.Popen(
        command(what, *options),
        cwd=REPOSITORY,
        env=environment(fleet_file),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def verify(fleet_file: Path, reports: Path, **data: object) -> tuple[Ran, dict[str, dict[str, Any]]]:
    """Runs verify.py with short limits; (what it said, host -> its JSON report)."""
    limits: dict[str, object] = {"verify_timeout": 25, "verify_pending_timeout": 10}
    ran = deploy(fleet_file, VERIFY, report_folder=reports, **(limits | data))
    folders = sorted(reports.glob("*"))
    assert folders, ran.text
    return ran, {
        path.stem: json.loads(path.read_text())
        for path in folders[-1].glob("*.json")
        if path.stem != "report"
    }


# The claims of the lab; there are others, which may warn.
LAB = ("driver", "runtime", "sole-provider", "scheduler-version", "webhook", "registered", "allocatable", "co-resident",
       "slice-visible", "refused", "pending", "mechanism")  # fmt: skip


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    """Claim of the lab -> its worst status on any card."""
    order = ("pass", "warn", "skip", "error", "fail")
    found: dict[str, str] = {}
    for one in report["verdicts"]:
        if one["claim"] in LAB:
            found[one["claim"]] = max(found.get(one["claim"], "pass"), one["status"], key=order.index)
    return found


def not_passed(report: dict[str, Any]) -> dict[str, set[str]]:
    """Status -> claims of the lab, those that pass left out."""
    found: dict[str, set[str]] = {}
    for claim, status in verdicts(report).items():
        if status != "pass":
            found.setdefault(status, set()).add(claim)
    return found
