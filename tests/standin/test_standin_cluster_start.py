"""How the k3s stand-in starts, what it dies of, and the older formats: containerd schema 2, HAMi 2.6's text annotation."""

import json
import os
import socket
import subprocess
import tomllib
from collections import Counter

import pytest

from rehearsal.standin.build import build_chart, build_k3s
from tests.standin import standin

pytestmark = pytest.mark.skipif(standin.missing() is not None, reason=str(standin.missing()))


@pytest.fixture
def bare(tmp_path):
    node = standin.Node(tmp_path)
    yield node
    node.destroy()


def server(node, *flags, **env):
    """The exit status and the log of a server that gives up by itself."""
    done = subprocess.run(
        [node.k3s, "server", *flags],
        env=node.env | env,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_default_runtime_that_is_not_there_ends_the_server_after_ready(bare):
    (bare.root / "usr/bin/nvidia-container-runtime").unlink()
    address = str(bare.root / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(1)
        code, log = server(bare, NOTIFY_SOCKET=address, PATH="/nowhere")
        assert systemd.recv(100) == b"READY=1"
    assert code == 1
    assert "default runtime nvidia was not found" in log
    assert log.index("k3s is up and running") < log.index("was not found")


def test_cgroup_v1_ends_a_kubelet_of_135_and_later(bare):
    (bare.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    code, log = server(bare)
    assert code == 1
    assert "kubelet is configured to not run on a host using cgroup v1" in log


def test_unknown_keys_are_skipped_and_unknown_flags_are_not(bare):
    bare.config("default-runtime: nowhere\ndefault-runtimes: nvidia\n")
    code, log = server(bare)
    assert code == 1
    assert "Unknown flag --default-runtimes found in config.yaml, skipping" in log
    code, log = server(bare, "--nonsense")
    assert code == 1
    assert "flag provided but not defined: -nonsense" in log


def test_a_broken_config_file_ends_the_server(bare):
    bare.config("default-runtime: [nvidia\n")
    assert server(bare)[0] == 1


def test_drop_ins_in_order_the_last_wins_and_plus_appends(bare):
    script = "import json, sys; sys.path.insert(0, sys.argv[1]); from cluster import config\n"
    script += "print(json.dumps(config.parse(sys.argv[2:])))"
    bare.write("etc/rancher/k3s/config.yaml", 'default-runtime: a\nnode-label: ["x=1"]\ndebug: true\n')
    bare.config("default-runtime: b\nnode-label+: [gpu=on]\n")
    bare.write("etc/rancher/k3s/config.yaml.d/60.yaml", "default-runtime: c\n")
    found = json.loads(bare.ok("/usr/bin/python3", "-c", script, str(bare.k3s), "--node-name", "n"))
    assert found == {"default-runtime": "c", "node-label": ["x=1", "gpu=on"], "debug": True, "node-name": "n"}


def test_the_operators_copy_of_the_runtime_wins_the_search(bare):
    (bare.root / "usr/local/nvidia/toolkit").mkdir(parents=True)
    bare.write("usr/local/nvidia/toolkit/nvidia-container-runtime", "#!/bin/sh\n").chmod(0o755)
    bare.start()
    text = (bare.root / "var/lib/rancher/k3s/agent/etc/containerd/config.toml").read_text()
    assert 'BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"' in text


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """k3s 1.31.4 with HAMi 2.6.1, whose scheduler tag has the older key."""
    node = standin.Node(tmp_path_factory.mktemp("older"), "v1.31.4+k3s1")
    node.faults(cards=[standin.CARD, {**standin.CARD, "index": 1, "uuid": "GPU-2", "healthy": False}])
    node.start()
    try:
        node.wait(lambda: "rtx-1" in node.run("kubectl", "get", "nodes").stdout)
        node.install("2.6.1", "--set", "scheduler.kubeScheduler.imageTag=v1.31.9")
        yield node
    finally:
        node.destroy()


def test_no_label_no_plugin_pod(older):
    status = older.json("daemonset", "hami-device-plugin", "-n", "kube-system")["status"]
    assert status["desiredNumberScheduled"] == 0
    assert "nvidia.com/gpu" not in older.json("node", "rtx-1")["status"]["allocatable"]


def test_the_text_registration_of_2_6(older):
    older.ok("kubectl", "label", "node", "rtx-1", "gpu=on")
    key = "hami.io/node-nvidia-register"
    older.wait(lambda: key in older.json("node", "rtx-1")["metadata"].get("annotations", {}))
    name = "NVIDIA-NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert older.json("node", "rtx-1")["metadata"]["annotations"][key] == (
        f"{standin.UUID},10,97887,100,{name},0,true,0,hami-core:GPU-2,10,97887,100,{name},0,false,1,hami-core:"
    )
    assert older.json("node", "rtx-1")["status"]["allocatable"]["nvidia.com/gpu"] == "10"


def test_image_tag_under_the_older_key(older):
    deployment = older.json("deployment", "hami-scheduler", "-n", "kube-system")
    images = [c["image"] for c in deployment["spec"]["template"]["spec"]["containers"]]
    assert "registry.cn-hangzhou.aliyuncs.com/google_containers/kube-scheduler:v1.31.9" in images


def test_schema_2_of_an_older_k3s(older):
    text = (older.root / "var/lib/rancher/k3s/agent/etc/containerd/config.toml").read_text()
    assert "# File generated by k3s. DO NOT EDIT. Use config.toml.tmpl instead." in text
    assert '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."nvidia".options]' in text
    found = tomllib.loads(text)
    assert found["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["default_runtime_name"] == "nvidia"


def test_a_second_plugin_wins_the_socket(older):
    folder = older.root / "var/lib/rancher/k3s/server/manifests"
    folder.mkdir(parents=True, exist_ok=True)
    source = standin.Path(standin.__file__).parents[2] / "rehearsal/standin/gpu/nvidia-device-plugin.yaml"
    (folder / "nvidia-device-plugin.yaml").write_text(source.read_text())
    older.wait(lambda: older.json("node", "rtx-1")["status"]["allocatable"]["nvidia.com/gpu"] == "2")


def test_the_same_source_gives_the_same_bytes(tmp_path):
    for number in ("1", "2"):
        build_k3s("v1.36.2+k3s1", tmp_path / number / "k3s")
        build_chart("2.9.0", tmp_path / number)
    for name in ("k3s", "hami-2.9.0.tgz"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    assert os.access(tmp_path / "1/k3s", os.X_OK)


def test_the_ledger_of_a_card():
    from rehearsal.standin.cluster.hami import accounting
    from rehearsal.standin.cluster.hami.registration import Card

    def cards():
        return [accounting.Usage(Card(f"GPU-{n}", n, 2, 1000, 100, "NVIDIA X", True)) for n in (0, 1)]

    def fit(count, memory, annotations=None, policy="spread", held=None, cores=0):
        asked = [accounting.Request(count, memory, cores=cores)]
        return accounting.fit(held or cards(), asked, annotations or {}, policy)

    assert fit(3, 10).reasons == Counter({"NodeInsufficientDevice": 1})
    assert fit(1, 1001).reasons == Counter({"CardInsufficientMemory": 2})
    pinned = {"nvidia.com/use-gpuuuid": "GPU-1"}
    assert [d.uuid for d in fit(1, 10, pinned).devices[0]] == ["GPU-1"]
    assert fit(1, 2000, pinned).reasons == Counter({"CardUuidMismatch": 1, "CardInsufficientMemory": 1})
    busy = cards()
    assert str(fit(1, 10, held=busy).devices[0][0]) == "GPU-0,NVIDIA,10,0:"
    assert fit(1, 10, held=busy).devices[0][0].uuid == "GPU-1"
    busy = cards()
    fit(1, 10, held=busy, policy="binpack")
    assert fit(1, 10, held=busy, policy="binpack").devices[0][0].uuid == "GPU-0"
    assert fit(2, 10, held=busy, policy="binpack").reasons["CardTimeSlicingExhausted"] == 1
    assert fit(2, 10, held=busy, cores=100).reasons["ExclusiveDeviceAllocateConflict"] == 1
