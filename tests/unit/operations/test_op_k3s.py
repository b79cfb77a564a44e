"""k3s: its service, and what makes it ready or not."""

from dataclasses import replace
from typing import Any

import pytest

from hami_k3s import cluster, trusted
from hami_k3s.difference import NOTED, Difference
from hami_k3s.facts.k3s import K3s, K3sState
from hami_k3s.facts.kubernetes import Node
from hami_k3s.isolation.evidence import ContainerdConfig
from hami_k3s.operations import k3s
from tests.unit.operations.fake_host import Call, operate

VERSION = "v1.36.2+k3s1"
NODE = Node("gpu-1", True, {"gpu": "on"}, kubelet=VERSION)
RUNNING = K3sState(
    active="active",
    sub="running",
    enabled=True,
    pid=812,
    age_s=100.0,
    containerd=ContainerdConfig(3, "nvidia", {"nvidia": "/usr/bin/nvidia-container-runtime"}),
    api="ok",
    nodes={"gpu-1": NODE},
    own=NODE,
    hostname="gpu-1",
    runtime_class=True,
)
RELOAD, ENABLE = "systemctl daemon-reload", "systemctl enable --quiet k3s.service"
RESET = "{ systemctl reset-failed k3s.service 2>/dev/null; true; }"
RESTART = f"{RESET} && systemctl restart --no-block k3s.service"


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, []),
        ({"active": None, "enabled": False}, [ENABLE, RESTART]),  # fresh host
        ({"stale": True, "need_reload": True}, [RELOAD, RESTART]),  # another unit file
        ({"stale": True}, [RESTART]),  # another drop-in or binary
        ({"active": "failed"}, [RESTART]),
        ({"active": "activating"}, [RESTART]),  # crash loop, or cut off in its start
        ({"enabled": False}, [ENABLE]),  # runs, but would not after a reboot
    ],
)
def test_k3s_service(changes: dict[str, Any], done: list[str]) -> None:
    found, noop = operate(k3s.service, {K3s: replace(RUNNING, **changes)})
    assert found == ([" && ".join(done)] if done else [])
    assert noop == (None if done else "k3s runs with its present configuration")


@pytest.mark.parametrize(
    ("row", "restart"),
    [
        (Difference("file", "/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml", "another text", "as written"), True),
        (Difference("file", "/etc/systemd/system/k3s.service", "not there", "as written"), True),
        (Difference("link", "/usr/local/bin/k3s", "/usr/local/lib/hami-k3s/k3s-v1", "k3s-v2"), True),
        (Difference("file", "/etc/rancher/k3s/hami-k3s.env", "mode 644", "as written"), False),
        (Difference("link", "/usr/local/bin/helm", "not there", "helm-v4"), False),
        (Difference("file", "/usr/local/bin/k3s-killall.sh", "not there", "as written"), False),
    ],
)  # fmt: skip
def test_a_dry_run_foresees_the_restart(row: Difference, restart: bool) -> None:
    NOTED["gpu-1"].append(row)
    assert len(operate(k3s.service, {K3s: RUNNING})[0]) == restart


def test_what_k3s_is_started_with_decides_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "executing", lambda host: True)
    monkeypatch.setattr(trusted, "read", lambda host, fact, **arguments: RUNNING)
    NOTED["gpu-1"].append(Difference("file", "/etc/rancher/k3s/registries.yaml", "other entries", "ours"))
    assert operate(k3s.service, {})[0] == []


NOT_READY: list[tuple[dict[str, Any], str]] = [
    ({"active": "activating", "sub": "auto-restart"}, "k3s.service is activating (auto-restart)"),
    ({"active": None, "sub": None}, "k3s.service is unknown (no state)"),
    ({"stale": True}, "older configuration"),
    ({"api": None}, "API server does not answer"),
    ({"nodes": None, "own": None}, "node gpu-1 is not Ready"),
    ({"own": replace(NODE, ready=False)}, "node gpu-1 is not Ready"),
    ({"own": replace(NODE, kubelet="v1.35.0+k3s1")}, "kubelet is v1.35.0+k3s1, not v1.36.2+k3s1"),
    ({"runtime_class": False}, "RuntimeClass nvidia is not there"),
    ({"containerd": None}, "config.toml: not written yet"),
    ({"containerd": None, "containerd_error": "Invalid value"}, "config.toml: Invalid value"),
    ({"containerd": ContainerdConfig(3, None, {"nvidia": "x"})}, "default runtime is runc, not nvidia"),
    ({"containerd": ContainerdConfig(3, "nvidia", {"runc": ""})}, "default runtime is nvidia, not nvidia"),
    ({"restarts": 3, "age_s": 4.0}, "restarted 3 times and runs for 4 s"),
]


@pytest.mark.parametrize(("changes", "reason"), NOT_READY)
def test_k3s_that_is_not_ready(changes: dict[str, Any], reason: str) -> None:
    state = replace(RUNNING, **changes)
    assert reason in (k3s.not_ready(state, VERSION) or "")
    (wait,), _ = operate(k3s.ready, {K3s: state}, version=VERSION, limit=300)
    assert isinstance(wait, Call)
    assert (wait.function, wait.arguments) == ("wait_ready", (VERSION, 300, True))


@pytest.mark.parametrize(
    "changes",
    [{"runtime_class": False}, {"containerd": None}, {"containerd": ContainerdConfig(3, None, {})}],
)
def test_a_host_without_a_card_needs_no_runtime_of_nvidia(changes: dict[str, Any]) -> None:
    state = replace(RUNNING, **changes)
    assert k3s.not_ready(state, VERSION, gpu=False) is None
    assert k3s.not_ready(state, VERSION, gpu=True)
    found = operate(k3s.ready, {K3s: state}, version=VERSION, limit=300, gpu=False)
    assert found == ([], f"k3s {VERSION} is ready")
    (wait,), _ = operate(k3s.ready, {K3s: replace(state, api=None)}, version=VERSION, limit=300, gpu=False)
    assert isinstance(wait, Call)
    assert wait.arguments == (VERSION, 300, False)


def test_an_agent_names_its_own_unit() -> None:
    stopped = replace(RUNNING, active="failed", sub="failed", enabled=False)
    assert k3s.not_ready(stopped, VERSION, unit="k3s-agent") == "k3s-agent.service is failed (failed)"
    assert {one.what for one in k3s.service_differences(stopped, "k3s-agent")} == {"k3s-agent.service"}
    script = k3s.start("k3s-agent", stopped)
    assert "systemctl enable --quiet k3s-agent.service && " in script
    assert script.endswith("systemctl restart --no-block k3s-agent.service")
    assert "k3s.service" not in script


def test_k3s_that_is_ready() -> None:
    assert operate(k3s.ready, {K3s: RUNNING}, version=VERSION, limit=300) == ([], f"k3s {VERSION} is ready")
    old_restarts = replace(RUNNING, restarts=3, age_s=4000.0)
    assert operate(k3s.ready, {K3s: old_restarts}, version=VERSION, limit=300)[0] == []
