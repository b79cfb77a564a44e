"""Two people type a command for the same host: one is at work, the other waits or is told who is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.deploying import GPU_NODE, RESET, VERIFY, deploy, fleet, start

pytestmark = pytest.mark.rehearsal

LOCK = "/run/hami-k3s.lock"
FREE = f"flock -n {LOCK} true"
ROW = "No other run on this host"


@pytest.fixture
def file(machines: Any, tmp_path: Path) -> Path:
    """Node `ubuntu`: its user needs sudo for everything."""
    return fleet(tmp_path / "fleet.yaml", machines.ubuntu)


def holding(node: Any, process: subprocess.Popen[str]) -> list[str]:
    """Waits until that command has the host: what the lock says, as words."""
    end = time.monotonic() + 30
    while node.run(FREE).ok:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
    return str(node.run(f"cat {LOCK}").stdout).split()


def test_the_second_waits_for_the_first_and_then_does_its_work(machines: Any, file: Path) -> None:
    node = machines.ubuntu
    first = start(file, VERIFY)
    holding(node, first)
    ran = deploy(file, GPU_NODE)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 0, said
    assert ran.status == 0, ran.text
    waited = [line for line in ran.on(node.name).splitlines() if "Another run's end" in line]
    assert f"(process {first.pid} there), since " in waited[0]
    assert "pyinfra inventory.py deploys/verify.py -y; last heard of" in waited[0]
    assert ran.changed == [f"Preflight | {ROW}"], "the wait itself is all that the second run did"
    assert node.run(FREE).ok


def test_one_that_may_not_wait_says_who_has_the_host_and_changes_nothing(machines: Any, file: Path) -> None:
    node = machines.ubuntu
    first = start(file, VERIFY)
    pid = holding(node, first)[0]
    before = node.standing().splitlines()[0]
    ran = deploy(file, RESET, preflight_lock_timeout=0)
    assert ran.status != 0
    assert ran.last == f"Reset | {ROW}"
    assert f"(process {first.pid} there), since " in ran.on(node.name)
    assert f"`kill {pid}` on this host takes the host from it" in ran.on(node.name)
    assert "preflight_lock_timeout is the limit of this wait" in ran.on(node.name)
    dry = deploy(file, GPU_NODE, "--dry", "--json")
    assert dry.status == 0, "a dry run does not ask for the lock"
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 0, said
    assert node.standing().splitlines()[0] == before


def test_a_run_that_was_killed_holds_nothing(machines: Any, file: Path) -> None:
    node = machines.ubuntu
    first = start(file, VERIFY)
    holding(node, first)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=30)
    ran = deploy(file, GPU_NODE, preflight_lock_timeout=0)
    assert (ran.status, ran.changed) == (0, []), ran.text


def test_the_host_can_be_taken_from_a_run(machines: Any, file: Path) -> None:
    """By hand, as the message says: the run that had it stops at its next step, and is no success."""
    node = machines.ubuntu
    first = start(file, VERIFY)
    pid = holding(node, first)[0]
    assert node.run(f"kill {pid}").ok
    said, _ = first.communicate(timeout=100)
    assert first.returncode != 0, said
    assert "this run no longer holds the host" in " ".join(said.split()), said
    assert node.run(FREE).ok
    assert "hami-k3s-verify" not in node.kubectl("get namespaces -o name")


def test_a_step_of_another_kind_that_a_killed_run_left_is_waited_for(machines: Any, file: Path) -> None:
    node = machines.ubuntu
    left = "hami-k3s-toolkit.service"
    assert node.run(f"systemd-run --quiet --collect --unit={left} sleep 300").ok
    second = start(file, GPU_NODE)
    holding(node, second)
    time.sleep(1)
    assert second.poll() is None
    assert node.run(f"systemctl stop {left}").ok
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0, said
    assert "toolkit: an interrupted run's step is still at work, waiting for it" in said
