"""k3s: service, process, containerd's configuration, what the API says."""

from typing import Any

import pytest

from hami_k3s.facts import batch
from hami_k3s.facts.k3s import K3sState, parse, parse_containerd
from tests.recorded.lab import recorded
from tests.unit.facts.answers import answered

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
    "link": "/usr/local/lib/hami-k3s/k3s-v1.36.2+k3s1",
    "version": "k3s version v1.36.2+k3s1 (abcdef12)\ngo version go1.26.5",
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
    assert (now.version, now.link) == ("v1.36.2+k3s1", RUNNING["link"])
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


def test_batch_keeps_every_byte_and_the_status() -> None:
    found = batch.parse(answered({"a": "two\nlines = and a sign", "b": None}))
    assert found["a"] == batch.Answer("two\nlines = and a sign", 0)
    assert found["b"].value is None
    assert found["b"].status == 127
