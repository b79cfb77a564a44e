"""What a reset would remove: objects, files of this project and of nobody else, GPU pods of other people."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hami_k3s import traces
from hami_k3s.facts.reset import Leftovers, Reset, gpu_pods, parse
from tests.unit.facts.answers import answered
from tests.unit.facts.api_server import Api
from tests.unit.facts.host_tools import Bin
from tests.unit.facts.test_facts_helm import DEPLOYED, SECRETS, listed, revision, stored

OWNER = "app.kubernetes.io/managed-by=pyinfra-hami-k3s"
NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {
        "name": "gpu-1",
        "labels": {"gpu": "on"},
        "annotations": {"hami.io/node-nvidia-register": "[]", "hami.io/node-handshake": "x", "other": "y"},
    },
}


def left(**answers: object) -> Leftovers:
    return parse(answered({"hostname": "gpu-1", **answers}), OWNER)


def test_everything() -> None:
    everything = left(
        paths="k3s /usr/local/bin/k3s-uninstall.sh\nalways /usr/local/vgpu\nk3s /var/lib/rancher/k3s",
        run="/run/hami-k3s/helm",
        own="/etc/rancher/k3s/config.yaml\n/etc/rancher/k3s/registries.yaml",
        packages="libnvidia-container1 installed hold\nnvidia-container-toolkit config-files install",
        nodes=listed(NODE, {**NODE, "metadata": {**NODE["metadata"], "name": "other"}}),
        release=listed(stored(DEPLOYED)),
        secret={"kind": "Secret", "metadata": {"name": "hami-scheduler-tls"}},
        lease={"kind": "Lease", "metadata": {"name": "hami-scheduler"}},
        spaces=listed({"metadata": {"name": "hami-k3s-verify-0a1b2c3d"}}),
        pods=listed(),
    )
    assert (everything.k3s, everything.api, everything.pods) == ("ours", True, ())
    assert (everything.node, everything.nodes) == ("gpu-1", ("gpu-1", "other"))
    assert everything.hami == (
        "namespace hami-k3s-verify-0a1b2c3d",
        "secret hami-scheduler-tls",
        "lease hami-scheduler",
        "release",
    )
    assert everything.marks == (
        "annotation hami.io/node-nvidia-register",
        "annotation hami.io/node-handshake",
        "label gpu",
    )
    assert everything.paths == {
        "k3s": ("/usr/local/bin/k3s-uninstall.sh", "/var/lib/rancher/k3s"),
        "always": ("/usr/local/vgpu",),
        "run": ("/run/hami-k3s/helm",),
        "yours": ("/etc/rancher/k3s/config.yaml",),
    }
    assert (everything.packages, everything.held) == (
        ("libnvidia-container1", "nvidia-container-toolkit"),
        ("libnvidia-container1",),
    )


def test_nothing() -> None:
    bare = {"kind": "Node", "metadata": {"name": "gpu-1"}}
    missing = ({"kind": "Status"}, 44)
    nothing = left(nodes=listed(bare), release=listed(), secret=missing, lease=missing, spaces=listed())
    assert (nothing.answered, nothing.k3s, nothing.api, nothing.hami) == (True, "", True, ())
    kept = left(nodes=listed(bare), release=listed(revision(3, "uninstalled")))
    assert kept.hami == ()  # helm keeps its history, nothing runs


def test_k3s_that_does_not_answer() -> None:
    silent = left(paths=f"k3s {traces.BEGUN}", nodes=("", 22), release=("", 22), pods=("", 22))
    assert (silent.k3s, silent.api, silent.hami, silent.pods, silent.begun) == ("ours", False, (), None, True)


def test_the_data_of_another_installers_k3s_are_its_own() -> None:
    state = left(
        another="/etc/systemd/system/k3s-agent.service",
        paths="k3s /var/lib/rancher/k3s\nk3s /var/lib/kubelet\nk3s /usr/local/lib/hami-k3s/helm-v4.2.3",
    )
    assert (state.k3s, state.paths) == ("another", {"k3s": ("/usr/local/lib/hami-k3s/helm-v4.2.3",)})


def pod(name: str, limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    meta = {"namespace": "default", "name": name, "labels": more.get("labels", {})}
    return {
        "metadata": meta | {"annotations": more.get("annotations", {})},
        "spec": {
            "nodeName": more.get("node", "gpu-1"),
            "containers": [{"resources": {"limits": limits or {}}}, {}],
        },
        "status": {"phase": more.get("phase", "Running")},
    }


GPU = {"nvidia.com/gpu": "1"}
PODS = [
    (pod("train", GPU | {"nvidia.com/gpumem": "8000", "cpu": "1"}), "(nvidia.com/gpu: 1, nvidia.com/gpumem: 8000)"),
    (pod("whole", {"nvidia.com/gpu": "2"}, phase="Pending"), "(nvidia.com/gpu: 2)"),
    (pod("cores", annotations={"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1,0:;"}), "(allocated by HAMi)"),
    (pod("web"), None),
    (pod("elsewhere", GPU, node="gpu-2"), None),
    (pod("none", {"nvidia.com/gpu": "0"}), None),
    (pod("old", GPU, phase="Succeeded"), None),
    (pod("dead", GPU, phase="Failed"), None),
    (pod("ours", GPU, labels=dict([OWNER.split("=")])), None),
    (pod("released", annotations={"hami.io/vgpu-devices-allocated": ":;"}), None),
]  # fmt: skip


@pytest.mark.parametrize(("item", "shown"), PODS, ids=lambda one: one and str(one)[:20])
def test_pods_that_would_lose_a_card(item: dict[str, Any], shown: str | None) -> None:
    expected = (f"default/{item['metadata']['name']} {shown}",) if shown else ()
    assert gpu_pods([item], "gpu-1", OWNER) == expected


def test_a_request_of_an_init_container_counts() -> None:
    item = pod("init")
    item["spec"]["initContainers"] = [{"resources": {"requests": GPU}}]
    assert gpu_pods([item], "gpu-1", OWNER) == ("default/init (nvidia.com/gpu: 1)",)


def test_through_the_real_script(host: Bin) -> None:
    api = Api(host)
    name = subprocess.run(["hostname"], capture_output=True, text=True, check=True).stdout.strip().lower()
    api.answers = {
        "/api/v1/nodes": listed({**NODE, "metadata": {"name": name, "labels": {"gpu": "on"}}}),
        "/api/v1/namespaces?labelSelector=a%3Db": listed({"metadata": {"name": "x"}}),
        "/api/v1/namespaces/kube-system/secrets/hami-scheduler-tls": {
            "kind": "Secret",
            "metadata": {"name": "hami-scheduler-tls"},
        },
        "/api/v1/pods": listed(pod("train", GPU, node=name), pod("elsewhere", GPU, node="x")),
        SECRETS: listed(),
    }
    found = api.read(Reset, release="hami", namespace="kube-system", owner="a=b")
    assert (found.hami, found.marks) == (("namespace x", "secret hami-scheduler-tls"), ("label gpu",))
    assert found.pods == ("default/train (nvidia.com/gpu: 1)",)


class Tree:
    """A folder that stands for the root of a host."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, text: str = "x") -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def link(self, path: str, target: str) -> None:
        (self.root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path.lstrip("/")).symlink_to(target if "/" not in target else f"{self.root}{target}")

    def found(self) -> set[str]:
        script = re.sub(r"/(?=(etc|usr|var|run|tmp)/)", f"{self.root}/", traces.probe())
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        return set(done.stdout.replace(str(self.root), "").splitlines())


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


def test_a_host_with_nothing_of_ours(tree: Tree) -> None:
    """Another installer's k3s, somebody's HAMi and toolkit: nothing of it is ours to take."""
    tree.file("/etc/systemd/system/k3s.service", "[Unit]")
    tree.file("/usr/local/bin/k3s")
    tree.file("/usr/local/bin/k3s-uninstall.sh", "#!/bin/sh")
    tree.file("/usr/local/bin/helm")
    tree.link("/usr/local/bin/kubectl", "k3s")
    for path in (
        "/var/lib/rancher/k3s/x",
        "/var/lib/kubelet/x",
        "/usr/local/vgpu/x",
        "/etc/rancher/k3s/k3s.yaml",
    ):
        tree.file(path)
    tree.file("/etc/nvidia-container-runtime/config.toml")
    assert tree.found() == set()


def test_a_host_that_is_ours(tree: Tree) -> None:
    written = {
        "/etc/systemd/system/k3s.service": "k3s",
        "/usr/local/bin/k3s-uninstall.sh": "k3s",
        "/usr/local/lib/hami-k3s/k3s-v1": "k3s",
        "/usr/local/lib/hami-k3s/charts": "always",
        "/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml": "k3s",
        "/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml.hami-k3s-new": "k3s",
        "/etc/apt/keyrings/nvidia-container-toolkit.asc": "toolkit",
        "/etc/apt/keyrings/hami-k3s-nvidia-driver.asc": "stays",
        "/var/lib/hami-k3s/bundle/HAMi": "k3s",
        "/var/lib/hami-k3s/bundle/libnvidia-container": "toolkit",
        "/usr/local/vgpu": "always",
        "/etc/apt/sources.list.d/old.list.disabled-by-hami-k3s": "toolkit",
    }
    for path in written:
        tree.file(f"{path}/x" if "." not in path.rpartition("/")[2] else path, traces.OURS)
    tree.link("/usr/local/bin/k3s", "/usr/local/lib/hami-k3s/k3s-v1")
    tree.link("/usr/local/bin/kubectl", "k3s")
    links = {"k3s /usr/local/bin/k3s", "k3s /usr/local/bin/kubectl"}
    assert tree.found() == {f"{part} {path}" for path, part in written.items()} | links
    tree.file(traces.DROP_IN, "default-runtime: nvidia\n")
    assert {f"always {traces.DROP_IN}", f"k3s {traces.DROP_IN}"} <= tree.found()
    # cut off between the two links
    (tree.root / "usr/local/bin/k3s").unlink()
    assert "k3s /usr/local/bin/kubectl" in tree.found()
    # somebody has written that source anew: theirs counts, and ours of before is left alone
    tree.file("/etc/apt/sources.list.d/old.list")
    assert not any("disabled-by" in line for line in tree.found())
