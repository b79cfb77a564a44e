"""Whatever cuts a run off, and wherever: it is no success, and the same command finishes the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.deploying import GPU_NODE, VERIFY, deploy, fleet, start, verify
from tests.rehearsal.interruption import PODS, WAIT, disturbed, lose_sessions

pytestmark = pytest.mark.rehearsal


@pytest.fixture
def file(machines: Any, tmp_path: Path) -> Path:
    """The machine that the first run refused."""
    return fleet(tmp_path / "fleet.yaml", machines.broken)


def end(process: subprocess.Popen[str], number: int) -> str:
    """Sends the signal; what the command said. It must be no success."""
    os.kill(process.pid, number)
    said, _ = process.communicate(timeout=100)
    assert process.returncode != 0
    return said


@pytest.fixture(scope="module", autouse=True)
def finished(machines: Any) -> Iterator[None]:
    """In the end this machine is a GPU node too: no interruption was needed to be undone by hand."""
    yield
    assert machines.broken.run("systemctl is-active k3s").ok


def test_killed_while_packages_are_installed(machines: Any, file: Path) -> None:
    """The worst moment: pyinfra and dpkg are both gone, dpkg in the middle of its work."""
    node = machines.broken
    node.run(
        "apt-mark unhold '*nvidia-container*'; apt-get purge -y '*nvidia-container*'; rm -f /usr/local/bin/k3s"
    )
    unit = "hami-k3s-toolkit.service"
    inside = f"grep -qx dpkg $(sed s,.*,/proc/\\&/comm, /sys/fs/cgroup/system.slice/{unit}/cgroup.procs) /dev/null 2>/dev/null"
    with node.broken("bad-checksum"):  # as far as k3s, which the next test needs
        process = start(file, GPU_NODE)
        assert node.run(WAIT.format(inside) + f" && systemctl kill -s KILL {unit}").ok
        end(process, signal.SIGKILL)
        assert node.run("! nvidia-container-runtime --version").ok or node.run("dpkg --audit").stdout
        ran = deploy(file, GPU_NODE)
    assert ran.last == "k3s | Verified binary", ran.text
    assert node.run("dpkg --audit").stdout == ""
    assert "version 1.19.1" in node.run("nvidia-container-runtime --version").stdout
    assert len(node.run("apt-mark showhold").stdout.split()) == 4


def test_killed_while_k3s_and_helm_are_downloaded(machines: Any, file: Path) -> None:
    """The downloads go on without pyinfra, and the next run waits for them instead of starting others."""
    node = machines.broken
    node.run("rm -rf /usr/local/lib/hami-k3s/helm-* /usr/local/lib/hami-k3s/charts")
    assert node.run("! test -e /usr/local/bin/k3s").ok
    helm = "hami-k3s-helm-download.service"
    asked = len(node.requests())
    with node.broken("slow=3"):
        process = start(file, GPU_NODE)
        assert node.run(WAIT.format(f"systemctl is-active --quiet {helm}")).ok
        end(process, signal.SIGKILL)
        assert node.run(f"systemctl is-active hami-k3s-k3s-download.service {helm}").ok
        again = start(file, GPU_NODE)
        # helm's is hit the hard way while that run waits for it, and once more after that run has begun it anew.
        for which in ("the first run's", "the second run's"):
            assert node.run(WAIT.format(f"systemctl is-active --quiet {helm}")).ok, which
            node.run(f"systemctl kill -s KILL {helm}")
            assert node.run(WAIT.format(f"! systemctl is-active --quiet {helm}")).ok
    said, _ = again.communicate(timeout=100)
    assert again.returncode != 0, said
    # It was waited for, or had arrived by then: nothing was fetched twice.
    fetched = [
        line for line in node.requests()[asked:] if " GET " in line and line.split()[2].endswith("/k3s")
    ]
    assert len(fetched) == 1, fetched
    assert "killed, or stopped at its limit" in said
    assert node.run("! ls /usr/local/lib/hami-k3s/helm-*").ok
    assert node.run("test -x /usr/local/bin/k3s").ok


def test_killed_while_helm_works(machines: Any, file: Path) -> None:
    """A helm that was killed leaves a release that helm itself refuses to touch."""
    node = machines.broken
    process = start(file, GPU_NODE)
    locked = "k3s kubectl -n kube-system get secret sh.helm.release.v1.hami.v1 >/dev/null 2>&1"
    assert node.run(WAIT.format(locked) + " && systemctl kill -s KILL hami-k3s-helm.service").ok
    end(process, signal.SIGKILL)
    releases = (
        "-n kube-system get secrets -l owner=helm,name=hami -o jsonpath='{.items[*].metadata.labels.status}'"
    )
    assert node.kubectl(releases) == "pending-install"
    ran = deploy(file, GPU_NODE)
    assert ran.status == 0, ran.text
    assert node.kubectl(releases) == "deployed", "what the first one had left was removed"


def running_pods(node: Any) -> bool:
    """Do verify's pods run?"""
    return "Running" in node.run("k3s kubectl get pods -A | grep hami-k3s-verify").stdout


def test_ctrl_c_in_verify_removes_its_pods(machines: Any, tmp_path: Path) -> None:
    lab = machines.lab
    process = start(fleet(tmp_path / "fleet.yaml", lab), VERIFY)
    deadline = time.monotonic() + 60
    while not running_pods(lab):
        assert time.monotonic() < deadline
    said = end(process, signal.SIGINT)
    assert "removing namespace hami-k3s-verify-" in said or "removed the pods" in said
    assert "Success" not in said, "what was at work is ended, not waited for"
    assert "hami-k3s-verify" not in lab.kubectl("get namespaces -o name")


def test_a_killed_verify_is_cleared_by_the_next(machines: Any, tmp_path: Path) -> None:
    lab = machines.lab
    file = fleet(tmp_path / "fleet.yaml", lab)
    process = start(file, VERIFY)
    deadline = time.monotonic() + 60
    while not running_pods(lab):
        assert time.monotonic() < deadline
    end(process, signal.SIGKILL)
    (left,) = [name for name in lab.kubectl("get namespaces -o name").split() if "hami-k3s-verify" in name]
    ran, _ = verify(file, tmp_path / "reports")
    assert ran.status == 0, ran.text
    assert f"removed what an earlier run left: {left.removeprefix('namespace/')}" in ran.text
    assert "hami-k3s-verify" not in lab.kubectl("get namespaces -o name")


def test_a_host_that_loses_its_sessions_does_not_stop_the_other(machines: Any, tmp_path: Path) -> None:
    lab, ubuntu = machines.lab, machines.ubuntu
    file = fleet(tmp_path / "fleet.yaml", lab, ubuntu)
    ran = disturbed(ubuntu, file, VERIFY, PODS, lose_sessions)
    assert ran.status != 0
    (report,) = (tmp_path / "reports").glob("*/report.json")
    whole = {one["host"]: one for one in json.loads(report.read_text())["hosts"]}
    assert whole[lab.name]["outcome"] in ("pass", "warn"), ran.text
    assert whole[ubuntu.name]["outcome"] == "error"
    assert "the connection to the host was lost" in ran.on(ubuntu.name)
    assert f"deploys/verify.py -y --limit {ubuntu.name}" in ran.text
    ran, _ = verify(fleet(file, ubuntu), tmp_path / "again")
    assert ran.status == 0, ran.text
    assert "removed what an earlier run left" in ran.text
