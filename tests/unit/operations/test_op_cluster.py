"""k3s, the HAMi release in every state helm knows, HAMi's gates."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s import chart
from hami_k3s.difference import NOTED, Difference
from hami_k3s.facts.hami import Hami, HamiState
from hami_k3s.facts.helm import Release, ReleaseState
from hami_k3s.facts.k3s import K3s, K3sState
from hami_k3s.facts.kubernetes import Node
from hami_k3s.isolation.evidence import ContainerdConfig
from hami_k3s.operations import hami, helm, k3s
from hami_k3s.settings import Settings
from tests.unit.operations.fake_host import Call, FakeHost, Then, operate
from tests.unit.test_lib_gates import DONE

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
RESTART = "systemctl reset-failed k3s.service 2>/dev/null; systemctl restart --no-block k3s.service"


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, []),
        ({"active": None, "enabled": False}, [RELOAD, ENABLE, RESTART]),  # fresh host
        ({"stale": True, "need_reload": True}, [RELOAD, RESTART]),  # another unit file
        ({"stale": True}, [RESTART]),  # another drop-in or binary
        ({"active": "failed"}, [RESTART]),
        ({"active": "activating"}, [RESTART]),  # crash loop, or cut off in its start
        ({"enabled": False}, [RELOAD, ENABLE]),  # runs, but would not after a reboot
    ],
)
def test_k3s_service(changes: dict[str, Any], done: list[str]) -> None:
    found, noop = operate(k3s.service, {K3s: replace(RUNNING, **changes)})
    assert found == done
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
    assert operate(k3s.service, {K3s: RUNNING})[0] == ([RESTART] if restart else [])


def test_what_k3s_is_started_with_decides_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHost, "state", SimpleNamespace(current_stage=StateStage.Execute))
    monkeypatch.setattr(k3s.trusted, "read", lambda host, fact, **arguments: RUNNING)
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
    assert (wait.function, wait.arguments) == ("wait_ready", (VERSION, 300))


def test_k3s_that_is_ready() -> None:
    assert operate(k3s.ready, {K3s: RUNNING}, version=VERSION, limit=300) == ([], f"k3s {VERSION} is ready")
    old_restarts = replace(RUNNING, restarts=3, age_s=4000.0)
    assert operate(k3s.ready, {K3s: old_restarts}, version=VERSION, limit=300)[0] == []


SETTINGS = Settings()
WANTED = chart.values(SETTINGS, VERSION, 1)
DEPLOYED = ReleaseState(
    status="deployed",
    revision=2,
    chart="hami",
    chart_version="2.9.0",
    values=WANTED,
    good_revision=2,
    server_version=VERSION,
    nodes=1,
    age_s=4000,
)


def release(*states: ReleaseState, settings: Settings = SETTINGS) -> tuple[list[Any], str | None]:
    return operate(helm.hami, {Release: Then(list(states))}, settings=settings)


def test_release_that_is_the_same() -> None:
    assert release(DEPLOYED) == ([], "HAMi 2.9.0 is deployed with these values")


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "absent", "revision": 0, "values": {}, "chart_version": None, "good_revision": None},
        {"chart_version": "2.8.0"},
        {"values": {}},
        {"server_version": "v1.37.0+k3s1"},  # the server was upgraded: another scheduler tag
        {"nodes": 3},  # leader election is no longer in the way
        {"status": "failed"},  # the same values, and yet it must run again
        {"status": "uninstalled"},
    ],
)
def test_release_that_must_be_installed_or_upgraded(changes: dict[str, Any]) -> None:
    (work,), noop = release(replace(DEPLOYED, **changes))
    assert noop is None
    assert work.arguments[:2] == ("helm", "HAMi 2.9.0")
    assert work.arguments[3:] == (3 * 300 + 120, "hami_ready_timeout")
    assert "upgrade --install hami" in work.script
    assert " uninstall " not in work.script
    assert " rollback " not in work.script


def test_the_scheduler_tag_follows_the_server_of_this_moment() -> None:
    (work,), _ = release(replace(DEPLOYED, server_version="v1.35.4+k3s2"))
    assert '"tag": "v1.35.4"' in work.script


@pytest.mark.parametrize(
    ("status", "good", "first", "not_there"),
    [
        ("pending-install", None, " uninstall hami -n kube-system", " rollback "),
        ("uninstalling", 2, " uninstall hami -n kube-system", " rollback "),
        ("pending-upgrade", 1, " rollback hami 1 -n kube-system", " uninstall "),
        ("pending-rollback", 7, " rollback hami 7 -n kube-system", " uninstall "),
        ("pending-upgrade", None, " uninstall hami -n kube-system", " rollback "),
    ],
)
def test_release_that_an_earlier_run_left_half_way(
    status: str, good: int | None, first: str, not_there: str
) -> None:
    done, _ = release(replace(DEPLOYED, status=status, good_revision=good))
    assert [call.function for call in done] == ["wait_for_helm", "work"]
    script = done[1].script
    assert script.index(first) < script.index("upgrade --install hami")
    assert not_there not in script
    assert f"({status})" in script


def test_somebody_elses_helm_is_waited_for_and_its_result_counts() -> None:
    done, noop = release(replace(DEPLOYED, status="pending-upgrade", working=True), DEPLOYED)
    assert [call.function for call in done] == ["wait_for_helm"]
    assert noop == "HAMi 2.9.0 is deployed with these values"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"status": None, "error": "Error: kubernetes cluster unreachable"},
            "kubernetes cluster unreachable",
        ),
        ({"server_version": None}, "the API server does not answer"),
        ({"nodes": None}, "the API server does not answer"),
    ],
)
def test_release_that_cannot_be_read_fails_this_host(changes: dict[str, Any], words: str) -> None:
    (fail,), noop = release(replace(DEPLOYED, **changes))
    host = FakeHost()
    assert fail.run(host) is False
    assert words in host.heard()
    assert "journalctl -u k3s" in host.heard()
    assert noop is None


def test_user_values_are_part_of_what_is_compared() -> None:
    settings = Settings(hami_values={"devicePlugin": {"deviceSplitCount": 4}})
    assert len(release(DEPLOYED, settings=settings)[0]) == 1
    same = replace(DEPLOYED, values=chart.values(settings, VERSION, 1))
    assert release(same, settings=settings)[0] == []


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, None),
        ({"status": "pending-upgrade", "age_s": 4000}, None),
        ({"status": "pending-upgrade", "age_s": 3, "cut_off": True}, None),
        ({"status": "pending-upgrade", "age_s": None}, None),
        (
            {"status": "pending-upgrade", "age_s": 3},
            "pending-upgrade for 3 s, perhaps by a helm on another machine",
        ),
        ({"working": True}, "a helm process is at work on the host"),
    ],
)
def test_wait_for_helm(changes: dict[str, Any], seen: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    monkeypatch.setattr(helm, "until", lambda host, what, limit, look, setting: looks.append(look()) or True)
    host: Any = FakeHost({Release: replace(DEPLOYED, **changes)})
    helm.wait_for_helm(None, host, {"release": "r", "namespace": "n"}, 300)  # type: ignore[arg-type]
    (look,) = looks
    assert look.state == ("wait" if seen else "done")
    assert (seen or "") in look.seen


READY = {"release": "hami", "namespace": "kube-system", "values": {}, "limit": 300}


def test_hami_that_works() -> None:
    assert operate(hami.ready, {Hami: DONE}, **READY) == ([], "HAMi works")


@pytest.mark.parametrize("state", [HamiState(), replace(DONE, pods=()), replace(DONE, webhook=None)])
def test_hami_that_does_not_work_yet(state: HamiState) -> None:
    (wait,), _ = operate(hami.ready, {Hami: state}, **READY)
    assert isinstance(wait, Call)
    assert (wait.function, wait.arguments) == ("wait_ready", ("hami", "kube-system", {}, 300))
