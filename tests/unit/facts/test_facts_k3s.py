"""k3s: service, process, containerd's configuration, what the API says."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from hami_k3s.facts import batch
from hami_k3s.facts.k3s import LIBRARY, RELEASE, K3sState, parse, parse_containerd
from tests.recorded.lab import recorded
from tests.unit.facts.answers import answered
from tests.unit.facts.host_tools import Bin

SHOW = """ActiveState=active
SubState=running
UnitFileState=enabled
MainPID=812
NRestarts=1
NeedDaemonReload=no
ActiveEnterTimestampMonotonic=40000000"""


def node(name: str, ready: str, kubelet: str) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"kubeletVersion": kubelet}}
    return {"kind": "Node", "metadata": {"name": name, "labels": {"gpu": "on"}}, "status": status}


RUNNING: dict[str, object] = {
    "service": SHOW,
    "uptime": "100.25",
    "inputs": "aa",
    "started": "aa",
    "containerd": recorded("k3s/containerd-v3.toml"),
    "hostname": "gpu-1",
    "api": "ok",
    "nodes": {"items": [node("gpu-1", "True", "v1.36.2+k3s1"), node("other", "False", "v1.35.1+k3s1")]},
    "class": {"kind": "RuntimeClass", "handler": "nvidia"},
}


def state(**changes: object) -> K3sState:
    return parse(answered({**RUNNING, **changes}))


def test_running() -> None:
    now = state()
    assert (now.active, now.sub, now.enabled, now.pid, now.restarts) == ("active", "running", True, 812, 1)
    assert now.age_s == pytest.approx(60.25)
    assert not now.stale
    assert now.api == "ok"
    assert {name: one.ready for name, one in (now.nodes or {}).items()} == {"gpu-1": True, "other": False}
    assert now.own is not None
    assert (now.own.kubelet, now.own.labels) == ("v1.36.2+k3s1", {"gpu": "on"})
    assert now.runtime_class


@pytest.mark.parametrize("name", ["k3s/containerd-v2.toml", "k3s/containerd-v3.toml"])
def test_containerd_schemas(name: str) -> None:
    config = parse_containerd(recorded(name))
    assert config.schema_version == int(name[-6])
    assert config.default_runtime_name == "nvidia"
    assert config.runtimes["nvidia"] == "/usr/bin/nvidia-container-runtime"


def test_runc_by_default() -> None:
    text = recorded("k3s/containerd-v3.toml").replace('default_runtime_name = "nvidia"', "")
    assert parse_containerd(text).default_runtime_name is None


@pytest.mark.parametrize(
    ("text", "words"),
    [("version = ", "Invalid value"), ("version = 3\n[plugins.x]\ny = 1\n", "no CRI plugin section")],
)
def test_containerd_that_cannot_be_read(text: str, words: str) -> None:
    now = state(containerd=text)
    assert now.containerd is None
    assert words in (now.containerd_error or "")


@pytest.mark.parametrize(
    ("inputs", "started", "stale"),
    [
        ("aa", "aa", False),
        ("aa", "bb", True),
        ("aa", None, True),  # started by somebody else's unit
        (None, "aa", True),  # the script is not there yet: nobody knows
        (None, None, True),
    ],
)
def test_stale(inputs: str | None, started: str | None, stale: bool) -> None:
    assert state(inputs=inputs, started=started).stale is stale
    stopped = SHOW.replace("ActiveState=active", "ActiveState=inactive")
    assert state(inputs=inputs, started=started, service=stopped).stale is False


def test_unit_that_is_not_there() -> None:
    """systemctl show answers for it, with empty values."""
    show = (
        "ActiveState=inactive\nSubState=dead\nUnitFileState=\nMainPID=0\nNRestarts=0\nNeedDaemonReload=no\n"
    )
    now = state(service=show + "ActiveEnterTimestampMonotonic=0", uptime="5.5")
    assert (now.active, now.enabled, now.age_s) == ("inactive", False, None)


def test_node_without_a_ready_condition() -> None:
    now = state(nodes={"items": [{"kind": "Node", "metadata": {"name": "gpu-1"}, "status": {}}]})
    assert now.own is not None
    assert not now.own.ready


def member(name: str, address: str | None, server: bool) -> dict[str, Any]:
    item = node(name, "True", "v1.36.2+k3s1")
    if server:
        item["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "true"
    item["status"]["addresses"] = [{"type": "Hostname", "address": name}]
    item["status"]["addresses"] += [{"type": "InternalIP", "address": address}] if address else []
    return item


def test_servers_by_address() -> None:
    listed = [
        member("s1", "10.0.0.1", True),
        member("s2", "fd00::2", True),
        member("s3", None, True),  # not yet registered with an address
        member("a1", "10.0.0.9", False),
    ]
    servers = state(nodes={"items": listed}).servers
    assert {address: one.name for address, one in servers.items()} == {"10.0.0.1": "s1", "fd00::2": "s2"}
    assert state(nodes=None).servers == {}


def test_a_member_of_a_cluster() -> None:
    now = state(
        cluster_file="server: https://10.0.0.1:6443",
        data="yes",
        token=f"{'a' * 64}  -",
        server_token=f"{'b' * 64}  -",
        password="yes",
    )
    assert (now.cluster_file, now.data, now.password) == ("server: https://10.0.0.1:6443", True, True)
    assert (now.token, now.server_token) == ("a" * 64, "b" * 64)
    without = state(cluster_file=("", 1), data=("", 1), token=("", 2), server_token=("", 2), password=("", 1))
    assert (without.cluster_file, without.data, without.password) == (None, False, False)
    assert (without.token, without.server_token) == (None, None)


def test_batch_keeps_every_byte_and_the_status() -> None:
    found = batch.parse(answered({"a": "two\nlines = and a sign", "b": None}))
    assert found["a"] == batch.Answer("two\nlines = and a sign", 0)
    assert found["b"].value is None
    assert found["b"].status == 127


def test_batch_through_the_real_script(host: Bin) -> None:
    asked = {
        "a": "echo two; printf 'li\\200nes = '; exit 3",
        "b": "cat",
        "gone": "no-such-tool",
        "c": "echo c >&2",
    }
    found = batch.parse(host.shell(batch.script(asked)))
    assert found == {
        "a": batch.Answer("two\nli\N{REPLACEMENT CHARACTER}nes = ", 3),
        "b": batch.Answer("", 0),
        "gone": batch.Answer("", 127),
        "c": batch.Answer("", 0),
    }


def test_answers_that_cannot_be_told_apart_are_no_answers(host: Bin) -> None:
    lines = host.shell(batch.script({"a": "printf 'x\\036y'", "b": "echo b"}))
    assert batch.parse(lines) == {}


@pytest.mark.parametrize(
    ("said", "status"), [("200/0", 0), ("201/0", 0), ("404/0", 44), ("500/0", 22), ("200/28", 22)]
)
def test_the_status_of_an_http_answer(said: str, status: int) -> None:
    encoded = b64encode(f"{{}}\n{said}".encode()).decode()
    assert batch.parse([f"a={encoded}"]) == {"a": batch.Answer("{}", status)}


def test_the_release_of_a_binary_of_ours_is_in_its_path(host: Bin) -> None:
    """It is not started for that; anybody else's is asked."""
    library = f"{host.folder}/lib"
    ours = RELEASE.replace(LIBRARY, library)
    (host.folder / "lib").mkdir()
    real = host.put("lib/k3s-v1.36.2+k3s1", "echo started")
    (host.folder / "k3s").symlink_to(real)
    assert host.shell(ours) == ["k3s version v1.36.2+k3s1"]
    Path(real).chmod(0o644)
    assert host.shell(ours) == []
    (host.folder / "k3s").unlink()
    host.put("k3s", "echo k3s version v1.30.0+k3s1")
    assert host.shell(ours) == ["k3s version v1.30.0+k3s1"]
