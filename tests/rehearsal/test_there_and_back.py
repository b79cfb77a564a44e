"""One machine from bare to GPU node and back: nothing of it is left, whatever cuts the way back off."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_k3s import traces
from rehearsal import keys
from tests.rehearsal import trees
from tests.rehearsal.conftest import KUBECTL
from tests.rehearsal.deploying import GPU_NODE, RESET, deploy, fleet, start

pytestmark = pytest.mark.rehearsal
PREFLIGHT = "deploys/preflight.py"
ALL = {"reset_k3s": "true", "reset_toolkit": "true"}
CONFIG, REGISTRIES = "/etc/rancher/k3s/config.yaml", "/etc/rancher/k3s/registries.yaml"
OLD_SOURCE = "/etc/apt/sources.list.d/old-toolkit.list"
# What the user of this machine had before.
OWN = f"""mkdir -p /etc/rancher/k3s
echo 'node-label: [own=yes]' >{CONFIG}
printf '# my mirror\\nmirrors:\\n    quay.io: {{endpoint: ["https://q.example"]}}\\n' >{REGISTRIES}; chmod 640 {REGISTRIES}
echo 'deb [signed-by=/etc/apt/keyrings/old.asc] https://mirror.rehearsal/libnvidia-container/stable/deb/amd64 /' >{OLD_SOURCE}
"""
WAIT = "timeout 60 sh -c 'until {0}; do sleep 0.02; done'"
GPU_POD = """apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: docker.io/library/python:3.12-slim
      command: ["sleep", "infinity"]
      resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 1000}}
"""


class Machine:
    """The node, its fleet file, and its files before anything was done."""

    def __init__(self, node: Any, folder: Path) -> None:
        self.node = node
        self.file = fleet(
            folder / "fleet.yaml",
            node,
            private_ca=str(keys.folder() / "ca.crt"),
            k3s_registries={"mirrors": {"docker.io": {"endpoint": ["https://m.example"]}}},
            report_folder=str(folder / "reports"),
        )
        assert node.run(OWN).ok
        self.before = trees.listing(node)


@pytest.fixture(scope="module")
def machine(rehearsal: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A node of this file's own; its tests come one after the other."""
    with rehearsal("back", card="l4") as node:
        yield Machine(node, tmp_path_factory.mktemp("back"))


def test_a_bare_machine_is_left_alone(machine: Machine) -> None:
    ran = deploy(machine.file, RESET, **ALL)
    assert (ran.status, ran.changed) == (0, []), ran.text
    assert trees.differences(machine.before, trees.listing(machine.node))[0] == []


def test_there(machine: Machine) -> None:
    ran = deploy(machine.file, GPU_NODE)
    assert ran.status == 0, ran.text
    node = machine.node
    assert "m.example" in node.run(f"cat {REGISTRIES}").stdout
    assert "own=yes" in node.kubectl("get nodes --show-labels")
    assert node.run(f"test -e {OLD_SOURCE}.disabled-by-hami-k3s").ok


def test_pods_with_a_card_are_named_and_nothing_is_done(machine: Machine) -> None:
    node = machine.node
    assert node.run(f"{KUBECTL} apply -f -", stdin=GPU_POD).ok
    node.kubectl("wait --for=condition=Ready --timeout=60s pod/train")
    standing, tree = node.standing(), trees.listing(node)
    ran = deploy(machine.file, RESET, **ALL)
    assert ran.status != 0
    assert "default/train (nvidia.com/gpu: 1, nvidia.com/gpumem: 1000)" in ran.text
    command = "deploys/reset.py -y --data reset_k3s=true --data reset_toolkit=true --data reset_force=true"
    assert f"GPU_FLEET={machine.file} pyinfra inventory.py {command} --limit {node.name}" in ran.text
    assert node.standing() == standing
    assert trees.differences(tree, trees.listing(node), trees.EXCEPTIONS | trees.ALIVE)[0] == []


def test_without_more_words_hami_goes_and_k3s_stays(machine: Machine) -> None:
    node = machine.node
    ran = deploy(machine.file, RESET, reset_force="true")
    assert ran.status == 0, ran.text
    assert node.kubectl("get pods -n default -o name") == ""
    assert "hami" not in node.kubectl(
        "get all,secrets,leases,configmaps,mutatingwebhookconfigurations -A -o name"
    )
    shown = node.kubectl("get node -o jsonpath='{.items[0].metadata.annotations}{.items[0].metadata.labels}'")
    assert "hami.io/" not in shown
    assert '"gpu":' not in shown
    assert node.run(
        "! ls /usr/local/vgpu; ! apt-mark showhold | grep .; ! ls /etc/rancher/k3s/config.yaml.d"
    ).ok
    containerd = node.run("cat /var/lib/rancher/k3s/agent/etc/containerd/config.toml").stdout
    assert "default_runtime_name" not in containerd, "k3s runs without the drop-in"
    assert "stays: k3s and helm, for reset_k3s is false: " in ran.text
    ran = deploy(machine.file, RESET)
    assert (ran.status, ran.changed) == (0, [])


def cut_off(machine: Machine, unit: str, moment: str, **data: str) -> None:
    """Kills the step of this name at that moment, and the command that waits for it."""
    options = [word for key, value in data.items() for word in ("--data", f"{key}={value}")]
    process = start(machine.file, RESET, *options)
    said = machine.node.run(WAIT.format(moment) + f" && systemctl kill -s KILL hami-k3s-{unit}.service")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert said.ok, (unit, said.stderr)


def test_back_after_interruptions(machine: Machine) -> None:
    """Cut off in HAMi's removal, in k3s' and in the packages': each time the same command goes on from there."""
    node = machine.node
    ran = deploy(machine.file, GPU_NODE)  # HAMi again
    assert ran.status == 0, ran.text
    uninstalling = f"{KUBECTL} -n kube-system get secrets -l status=uninstalling -o name | grep -q ."
    cut_off(machine, "reset-hami", uninstalling)
    ran = deploy(machine.file, RESET)
    assert ran.status == 0, ran.text
    assert "hami" not in node.kubectl("get all,secrets,leases,configmaps -A -o name")
    cut_off(machine, "reset-k3s", f"test -e {traces.BEGUN} && ! systemctl is-active -q k3s", **ALL)
    assert node.run("test -e /usr/local/bin/k3s-uninstall.sh").ok, "it was cut off in the middle"
    inside = "grep -qsx dpkg $(sed s,.*,/proc/\\&/comm, /sys/fs/cgroup/system.slice/hami-k3s-reset-toolkit.service/cgroup.procs)"
    cut_off(machine, "reset-toolkit", f"{inside} /dev/null 2>/dev/null", **ALL)
    assert node.run("test -e /etc/apt/keyrings/nvidia-container-toolkit.asc").ok
    ran = deploy(machine.file, RESET, **ALL)
    assert ran.status == 0, ran.text
    assert f"stays: your own files: {CONFIG}" in ran.text
    ran = deploy(machine.file, RESET, **ALL)
    assert (ran.status, ran.changed) == (0, [])


def test_nothing_of_it_is_left(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    ran = deploy(machine.file, PREFLIGHT)
    assert ran.status == 0, ran.text
    assert "no problem found" in ran.text
    assert machine.node.run(
        "test ! -e /run/hami-k3s && ! systemctl list-unit-files 'k3s*' --no-legend | grep ."
    ).ok
    differ, line = trees.report(machine.before, trees.listing(machine.node))
    with capsys.disabled():
        print(f"\n{line}")
    assert differ == []
