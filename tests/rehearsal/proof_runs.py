"""Three nodes, a fault on each, one verify for all of them: what each host's report says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rehearsal import access, lifecycle

REPOSITORY = Path(__file__).resolve().parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")
NODES = 3
# HAMi's scheduler takes a node without cards out of its pool, and gives it back after a minute; not waited for here.
REMEMBERED = "k3s kubectl annotate nodes --all hami.io/node-handshake-"
HEALTHY = (
    "! k3s kubectl get nodes -o json | grep -q Deleted_ && "
    "k3s kubectl get nodes -o json | grep -q 'health\\\\\":true' && "
    "k3s kubectl get nodes -o jsonpath='{.items[0].status.allocatable.nvidia\\.com/gpu} "
    "{.items[0].status.conditions[?(@.type==\"Ready\")].status}' | grep -qx '10 True' && "
    "k3s kubectl get pods -n kube-system -o json | grep -q kube-scheduler:v1.36.2"
)


@dataclass(frozen=True)
class Case:
    """A fault, and what verify must say: this claim with this word, those that need it skipped, the others as ever."""

    fault: str
    claim: str
    status: str = "fail"
    says: str = ""
    also: tuple[str, ...] = ()  # claims that cannot be measured for the same reason
    perhaps: tuple[str, ...] = ()  # the same, when it comes early enough
    settled: str = "true"  # shell: is the fault in effect?
    after: str = "true"  # shell: what clearing the fault leaves behind
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.claim}: {self.fault or self.settings}"


@dataclass(frozen=True)
class Result:
    """One host's report, and all that the command printed."""

    report: dict[str, Any]
    text: str
    status: int
    left: str  # namespaces of verify that are still there
    seconds: float


class Proof:
    """Runs cases in groups, a node each, and remembers what they gave."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.results: dict[str, Result] = {}

    def on(self, name: str, command: str) -> subprocess.CompletedProcess[str]:
        full = [*access.ssh_command(self.node.state, name, "root"), command]
        return subprocess.run(full, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def wait(self, name: str, condition: str, limit: float = 40) -> None:
        end = time.monotonic() + limit
        while self.on(name, condition).returncode != 0:
            assert time.monotonic() < end, f"{name}: not so after {limit} s: {condition}"
            time.sleep(0.5)

    def deploy(self, what: str, fleet: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(PYINFRA), "inventory.py", what, "-y", *options],
            cwd=REPOSITORY,
            env=dict(os.environ, GPU_FLEET=str(fleet), PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def fleet(self, path: Path, cases: dict[str, Case]) -> Path:
        """The nodes of these cases, each with its case's settings."""
        content = yaml.safe_load(self.node.fleet.read_text())
        content["hosts"] = [
            {**host, **cases[host["name"]].settings} for host in content["hosts"] if host["name"] in cases
        ]
        path.write_text(yaml.safe_dump(content))
        return path

    def run(self, cases: list[Case], meanwhile: Callable[[], None] | None = None) -> None:
        """These cases at the same time, one a node; the nodes are as before afterwards."""
        held = dict(zip(self.node.names, cases, strict=False))
        folder = Path(tempfile.mkdtemp(prefix="proof-"))
        try:
            for name, case in held.items():
                lifecycle.change_faults(self.node.state.name, name, (case.fault,) if case.fault else (), ())
            for name, case in held.items():
                self.wait(name, case.settled)
            limits = (
                "verify_timeout=25",
                "verify_pending_timeout=10",
                f"report_folder={folder / 'reports'}",
            )
            begun = time.monotonic()
            options = [word for one in limits for word in ("--data", one)]
            done = self.deploy("deploys/verify.py", self.fleet(folder / "fleet.yaml", held), *options)
            seconds = time.monotonic() - begun
        finally:
            for name, case in held.items():
                lifecycle.change_faults(self.node.state.name, name, (), ("all",))
                self.on(name, f"{case.after}; {REMEMBERED}")
        for name, case in held.items():
            (report,) = (folder / "reports").glob(f"*/{name}.json")
            self.wait(name, HEALTHY)
            left = self.on(name, "k3s kubectl get namespaces -o name | grep hami-k3s-verify").stdout
            self.results[case.name] = Result(
                json.loads(report.read_text()), done.stdout, done.returncode, left, seconds
            )
        shutil.rmtree(folder)


def booted(rehearsal: Callable[..., AbstractContextManager[Any]]) -> AbstractContextManager[Any]:
    """Converged nodes for a `Proof`."""
    return rehearsal("proof", card="h200", nodes=NODES)
