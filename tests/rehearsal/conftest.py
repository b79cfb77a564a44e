"""Booted nodes for tests: `node` (one for the whole session) and `rehearsal(name, ...)` for a test's own.

def test_it(node):                       def test_other(rehearsal):
    assert node.run("true").ok               with rehearsal("late", broken=("webhook-late=20",)) as node:
    with node.broken("mirror-down"):             node.run("nvidia-smi -L").stdout
        ...
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rehearsal import access, cleanup, host, lifecycle
from rehearsal.state import State
from tests.rehearsal import deploying, interruption

# Its cache is not put into root's home, where a test would take it for the product's.
KUBECTL = "KUBECACHEDIR=/tmp/kube k3s kubectl"


@dataclass(frozen=True)
class Said:
    """What a command on a node said."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.returncode == 0


class Node:
    """One node of a rehearsal (the first, unless named otherwise)."""

    def __init__(self, state: State, name: str | None = None) -> None:
        self.state = state
        self.names: list[str] = list(state.read()["ports"])
        self.name = name or self.names[0]

    @property
    def fleet(self) -> Path:
        """The file for GPU_FLEET."""
        return self.state.fleet

    def run(self, command: str, user: str = "root", stdin: str | None = None) -> Said:
        """Runs a shell command over SSH; never raises because of what the command did."""
        full = [*access.ssh_command(self.state, self.name, user), command]
        done = subprocess.run(full, input=stdin or "", capture_output=True, text=True, check=False)
        return Said(done.returncode, done.stdout, done.stderr)

    def fault(self, add: tuple[str, ...] = (), clear: tuple[str, ...] = ()) -> None:
        """Switches faults of this node while it runs; those of the mirror are its whole rehearsal's."""
        lifecycle.change_faults(self.state.name, self.name, add, clear)

    @contextlib.contextmanager
    def broken(self, *faults: str) -> Iterator[None]:
        """Faults for the length of a `with`."""
        self.fault(add=faults)
        try:
            yield
        finally:
            self.fault(clear=faults)

    def kubectl(self, arguments: str) -> str:
        """What kubectl prints on the node."""
        said = self.run(f"{KUBECTL} {arguments}")
        assert said.ok, said.stderr
        return said.stdout

    def standing(self) -> str:
        """What a run that changes nothing leaves alone: k3s' process, every pod and its restarts."""
        fields = "{.metadata.namespace} {.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}"
        pods = self.kubectl(f"get pods -A -o jsonpath='{{range .items[*]}}{fields}{{\"\\n\"}}{{end}}'")
        process = self.run("systemctl show -p MainPID -p NRestarts k3s").stdout
        return process + "\n".join(sorted(pods.splitlines()))

    def new_handshake(self) -> None:
        """Within a minute of it HAMi leaves a node in its pool whose plugin is away for a moment; later it takes it out for
        a minute, which a test has no time for."""
        self.kubectl(f"annotate node {self.name} hami.io/node-handshake-")

    def requests(self) -> list[str]:
        """The mirror's log: `HH:MM:SS METHOD PATH STATUS` lines."""
        return (self.state.folder / "mirror.log").read_text().splitlines()


@contextlib.contextmanager
def _booted(name: str, **options: Any) -> Iterator[Node]:
    state = lifecycle.up(name, **options)
    try:
        yield Node(state)
    finally:
        left = cleanup.down(state)
        assert not left, left


@pytest.fixture(scope="session")
def rehearsal() -> Callable[..., AbstractContextManager[Node]]:
    """`rehearsal("name", card=..., count=..., nodes=..., user=..., broken=(...))`: boots it, ends it with the `with`."""
    if os.geteuid() != 0:
        pytest.skip("needs root: systemd-nspawn boots the nodes")
    host.require()

    def start(name: str, **options: Any) -> AbstractContextManager[Node]:
        return _booted(f"t{os.getpid()}-{name}"[:20].rstrip("-"), **options)

    return start


@pytest.fixture(scope="session")
def node(rehearsal: Callable[..., AbstractContextManager[Node]]) -> Iterator[Node]:
    """A node that all tests of a session share: leave it as you found it."""
    with rehearsal("node") as booted:
        yield booted


@dataclass(frozen=True)
class Fleet:
    """Three machines after one command: two that are GPU nodes now, and one that could not become one.

    `lab` is reached as root, `ubuntu` has two L4 and a user with sudo, `broken` was refused (fault `mig`, switched off since).
    """

    lab: Node
    ubuntu: Node
    broken: Node
    first_run: deploying.Ran


@pytest.fixture(scope="session")
def machines(
    rehearsal: Callable[..., AbstractContextManager[Node]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """The nodes that tests of whole deploys share: leave them as you found them."""
    with rehearsal("pair", nodes=2) as first, rehearsal("l4", card="l4", count=2, user="ubuntu") as ubuntu:
        lab = Node(first.state, first.names[1])
        file = deploying.fleet(tmp_path_factory.mktemp("fleet") / "fleet.yaml", first, lab, ubuntu)
        with first.broken("mig"):
            ran = deploying.deploy(file, deploying.GPU_NODE)
        yield Fleet(lab, ubuntu, first, ran)


@pytest.fixture(scope="session")
def undisturbed(
    rehearsal: Callable[..., AbstractContextManager[Node]], tmp_path_factory: pytest.TempPathFactory
) -> interruption.Undisturbed:
    """What a node looks like when nothing disturbed the runs: what interrupted ones must come to."""
    with rehearsal("undisturbed") as booted:
        return interruption.undisturbed(tmp_path_factory.mktemp("undisturbed"), booted)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests of interruptions survived, in figures."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    told = [value for one in reports for name, value in one.user_properties if name == "interruption"]
    if told:
        terminalreporter.section("interruptions")
        for line in told:
            terminalreporter.write_line(line)
