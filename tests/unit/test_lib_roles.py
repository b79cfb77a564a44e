"""What a host gets by its role and its card: k3s' files, and whether it has a card at all."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pyinfra.context import ctx_host

from hami_k3s import gate
from hami_k3s.facts.nvidia import OnBus
from hami_k3s.reports import trail
from hami_k3s.settings import Settings, SettingsError
from hami_k3s.stages import common
from hami_k3s.stages.k3s import contents
from tests.unit.operations.fake_host import FakeHost, Run, agent, server

DROP_IN = "/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml"
NVIDIA = {"default-runtime": "nvidia"}
MODE = {"write-kubeconfig-mode": "0600"}


@pytest.mark.parametrize(
    ("settings", "drop_in"),
    [
        ({"k3s_gpu": True}, {**NVIDIA, **MODE}),
        ({"k3s_gpu": False}, MODE),
        ({"k3s_gpu": True, "k3s_role": "agent"}, NVIDIA),
        (
            {"k3s_gpu": True, "k3s_role": "agent", "k3s_node_ip": "fd00::1"},
            {**NVIDIA, "node-ip": "fd00::1"},
        ),
        ({"k3s_gpu": False, "k3s_role": "agent"}, None),
    ],
)
def test_the_drop_in(settings: dict[str, Any], drop_in: dict[str, str] | None) -> None:
    text, mode = contents(Settings(**settings))[DROP_IN]
    assert (yaml.safe_load(text), mode) == (drop_in, "600")


@pytest.mark.parametrize(("role", "unit"), [("server", "k3s"), ("agent", "k3s-agent")])
def test_the_unit_is_the_roles(role: str, unit: str) -> None:
    files = contents(Settings(k3s_role=role, k3s_gpu=True))
    (path,) = [name for name in files if name.endswith(".service")]
    assert path == f"/etc/systemd/system/{unit}.service"
    assert f"\nExecStart=/usr/local/bin/k3s {role}\n" in files[path][0]
    inputs = files["/usr/local/lib/hami-k3s/k3s-inputs"][0]
    assert f"/etc/systemd/system/{unit}.service.d/*.conf" in inputs
    other = "k3s" if role == "agent" else "k3s-agent"
    assert f"/{other}.service" not in inputs
    removal = files["/usr/local/bin/k3s-uninstall.sh"][
        0
    ]  # of either role: the host may have been the other one
    assert "for unit in k3s k3s-agent; do" in removal


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of a host, as a stage sees them."""
    monkeypatch.setattr(gate, "install", lambda: None)
    monkeypatch.setattr(trail, "follow", lambda state, folder: None)

    def settings(host: FakeHost) -> Settings:
        with ctx_host.use(host):
            return common.settings(changes=False)

    return settings


@pytest.mark.parametrize("card", [True, False])
def test_servers_of_clusters_may_have_a_card(stage: Any, card: bool) -> None:
    """Every other host must have one, and preflight says so where it has none: the bus is not asked."""
    alone, a1, s1 = FakeHost(), agent("a1"), server("s1", facts={OnBus: card})
    Run(alone, a1, s1)
    assert [stage(host).k3s_gpu for host in (alone, a1, s1)] == [True, True, card]


@pytest.mark.parametrize("said", [True, False])
def test_what_was_said_about_a_card_counts(stage: Any, said: bool) -> None:
    hosts = [
        FakeHost(data={"k3s_gpu": said}),
        *(make("x", data={"k3s_gpu": said}) for make in (server, agent)),
    ]
    assert {stage(host).k3s_gpu for host in (hosts[0], hosts[1])} == {said}
    Run(server("s1"), hosts[2])
    assert stage(hosts[2]).k3s_gpu is said


def test_the_bus_is_looked_at_once(stage: Any) -> None:
    s1 = server("s1", facts={OnBus: True})
    first = stage(s1)
    s1.facts = {}
    assert stage(s1) is first


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"k3s_role": "agent"}, "is an agent of no cluster; set k3s_cluster"),
        ({"k3s_role": "agent", "k3s_cluster": "lab"}, "cluster lab has agents and no server"),
    ],
)
def test_a_place_that_no_fleet_file_has_checked(stage: Any, data: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        stage(FakeHost(data=data))
