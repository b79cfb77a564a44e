"""One machine from bare to GPU node and back: what a dry run foresees and drift.py sees on the way is what there is, and
in the end nothing is left, whatever cuts the way back off."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_k3s import traces
from rehearsal import keys
from tests.rehearsal import trees
from tests.rehearsal.conftest import KUBECTL
from tests.rehearsal.deploying import GPU_NODE, RESET, Ran, deploy, fleet, start

pytestmark = pytest.mark.rehearsal
PREFLIGHT, DRIFT = "deploys/preflight.py", "deploys/drift.py"
ALL = {"reset_k3s": "true", "reset_toolkit": "true"}
CONFIG, REGISTRIES = "/etc/rancher/k3s/config.yaml", "/etc/rancher/k3s/registries.yaml"
DROP_IN = "/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml"
HELM = "KUBECACHEDIR=/tmp/kube KUBECONFIG=/etc/rancher/k3s/k3s.yaml helm -n kube-system"
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


# Operations that wait for what the ones before them have done, and one that fetches for later ones.
WAITS = {
    "k3s | Ready, NVIDIA's runtime by default",
    "HAMi | Cards registered, webhook answers",
    "Downloads | Begun, where something is missing",
}


class Machine:
    """The node, its fleet file, and its files before anything was done."""

    def __init__(self, node: Any, folder: Path) -> None:
        self.node, self.reports = node, folder / "reports"
        self.file = fleet(
            folder / "fleet.yaml",
            node,
            private_ca=str(keys.folder() / "ca.crt"),
            k3s_registries={"mirrors": {"docker.io": {"endpoint": ["https://m.example"]}}},
            report_folder=str(self.reports),
        )
        assert node.run(OWN).ok
        self.before = trees.listing(node)

    def foreseen(self) -> set[str]:
        """Operations of which `--dry` says that they would change something."""
        ran = deploy(self.file, GPU_NODE, "--dry")
        assert ran.status == 0, ran.text
        table = ran.text.partition("Detected changes:")[2].partition("Detected changes may")[0]
        return {row[0].strip() for row in re.findall(r"^    (\S.*?) {2,}(\d+) \(", table, re.MULTILINE)}

    def drift(self, fleet_file: Path | None = None) -> tuple[Ran, dict[str, Any]]:
        """What drift.py says, and its JSON."""
        ran = deploy(fleet_file or self.file, DRIFT)
        return ran, json.loads(max(self.reports.glob("*/drift.json")).read_text())

    def rows(self, status: int = 1) -> set[tuple[str, str, str]]:
        """(part, kind, what) of each difference that drift.py reports."""
        ran, data = self.drift()
        assert ran.status == status, ran.text
        return {
            (row["part"], row["kind"], row["what"]) for row in data["hosts"][self.node.name]["differences"]
        }


@pytest.fixture(scope="module")
def machine(rehearsal: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A node of this file's own; its tests come one after the other."""
    with rehearsal("back", card="l4") as node:
        yield Machine(node, tmp_path_factory.mktemp("back"))


def test_a_bare_machine_is_left_alone(machine: Machine) -> None:
    """By a reset, by a look at what differs, and by a dry run, which foresees everything."""
    ran = deploy(machine.file, RESET, **ALL)
    assert (ran.status, ran.changed) == (0, []), ran.text
    bare = {(part, "part", part) for part in ("Container toolkit", "k3s", "Helm", "HAMi")}
    assert machine.rows() == bare
    everything = machine.foreseen()
    assert len(everything) == 12
    assert not any(name.startswith("Preflight") for name in everything)
    assert trees.differences(machine.before, trees.listing(machine.node))[0] == []


def test_there(machine: Machine) -> None:
    ran = deploy(machine.file, GPU_NODE)
    assert ran.status == 0, ran.text
    node = machine.node
    assert "m.example" in node.run(f"cat {REGISTRIES}").stdout
    assert "own=yes" in node.kubectl("get nodes --show-labels")
    assert node.run(f"test -e {OLD_SOURCE}.disabled-by-hami-k3s").ok


def test_nothing_differs_and_looking_changes_nothing(machine: Machine) -> None:
    standing, tree = machine.node.standing(), trees.listing(machine.node)
    assert machine.rows(status=0) == set()
    assert machine.foreseen() == set()
    assert machine.node.standing() == standing
    assert trees.differences(tree, trees.listing(machine.node), trees.EXCEPTIONS | trees.ALIVE)[0] == []


def test_what_was_changed_by_hand_is_seen(machine: Machine, tmp_path: Path) -> None:
    node = machine.node
    by_hand = f"""apt-mark unhold libnvidia-container1 && chmod 644 {DROP_IN} && systemctl disable -q k3s
    {HELM} upgrade hami /usr/local/lib/hami-k3s/charts/*.tgz --reuse-values --set devicePlugin.deviceSplitCount=3"""
    node.new_handshake()  # the plugin is restarted, and the next test wants a card soon
    said = node.run(by_hand)
    assert said.ok, said.stderr
    assert machine.rows() - {("HAMi", "ready", "HAMi")} == {
        ("Container toolkit", "hold", "libnvidia-container1"),
        ("k3s", "file", DROP_IN),
        ("k3s", "service", "k3s.service"),
        ("HAMi", "value", "devicePlugin.deviceSplitCount"),
    }
    running = "k3s | Running with this configuration"
    held, files, release = (
        "Container toolkit | Pinned packages, held",
        "k3s | Unit, configuration, scripts",
        "HAMi | Release",
    )
    assert machine.foreseen() - WAITS == {held, files, running, release}
    content = yaml.safe_load(machine.file.read_text())
    content["hosts"].append(content["hosts"][0] | {"name": "gone", "ssh_port": 9})
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(content))
    with node.broken("runc-default"):
        ran, data = machine.drift(tmp_path / "two.yaml")
    assert ran.status != 0
    assert "containerd's default runtime is runc, not nvidia" in ran.text
    assert data["not_read"] == {"gone": "unreachable"}
    assert "not read: gone (unreachable)" in ran.text
    fix = f"GPU_FLEET={tmp_path / 'two.yaml'} pyinfra inventory.py deploys/gpu_node.py --limit {node.name}"
    assert data["fix"] == fix
    assert f"to make them as wanted: {fix}" in ran.text


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
    assert node.run("! ls /usr/local/vgpu").ok
    assert node.run(f"! apt-mark showhold | grep . && ! grep default-runtime {DROP_IN}").ok
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
    differs, foreseen = machine.rows(), machine.foreseen()
    assert {("k3s", "file", DROP_IN), ("Label", "label", "gpu"), ("HAMi", "part", "HAMi")} <= differs
    ran = deploy(machine.file, GPU_NODE)  # HAMi again
    assert ran.status == 0, ran.text
    assert foreseen <= set(ran.changed) <= foreseen | WAITS, "what was foreseen is what was done"
    cut_off(machine, "reset-hami", "pgrep -f [h]elm-v.*uninstall >/dev/null")
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
    found = json.loads(max(machine.reports.glob("preflight-*.json")).read_text())["hosts"][machine.node.name]
    # How quick the mirror is depends on what else this machine is doing.
    problems = [one for one in found["problems"] if not one["code"].startswith("source-")]
    assert problems == [], ran.text
    assert machine.node.run(
        "test ! -e /run/hami-k3s && ! systemctl list-unit-files 'k3s*' --no-legend | grep ."
    ).ok
    differ, line = trees.report(machine.before, trees.listing(machine.node))
    with capsys.disabled():
        print(f"\n{line}")
    assert differ == []
