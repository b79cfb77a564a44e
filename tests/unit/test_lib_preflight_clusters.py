"""What a cluster changes for the preflight: hosts without a card, roles, names, and which sources are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.facts.driver import DriverState
from hami_k3s.facts.host import HostState
from hami_k3s.facts.machine import MachineState
from hami_k3s.facts.nvidia import NvidiaState
from hami_k3s.preflight import CATALOGUE, Judgement, Look, judge
from hami_k3s.preflight.kubernetes import AGENT, OURS, SERVICE
from hami_k3s.preflight.network import sources
from hami_k3s.settings import Settings
from hami_k3s.stages.k3s import contents
from tests.unit.test_lib_preflight import FINE

NO_CARD = replace(FINE, nvidia=NvidiaState(message="command not found"), driver=DriverState(devices=()))
OF_CARDS = {one.code for one in CATALOGUE if one.judge.__module__.rpartition(".")[2] in ("card", "driver")}


def judged(state: HostState, **settings: Any) -> Judgement:
    return judge(Look(state, Settings(**settings), None, "gpu-1"))


def codes(state: HostState, **settings: Any) -> list[str]:
    return [one.code for one in judged(state, **settings).problems]


def test_a_host_without_a_card_is_a_problem_where_there_must_be_one() -> None:
    assert codes(NO_CARD) == codes(NO_CARD, k3s_gpu=True) == ["no-device"]


def test_a_server_without_a_card_is_a_server() -> None:
    assert codes(NO_CARD, k3s_gpu=False, k3s_cluster="lab") == []
    # Of a host of which nothing is known, nothing about cards is asked either.
    assert not OF_CARDS & set(judged(HostState(), k3s_gpu=False).unknown)
    assert OF_CARDS & set(judged(HostState()).unknown)


def test_the_rest_must_be_right_without_a_card_too() -> None:
    state = replace(NO_CARD, systemd=False, kubelets=("microk8s",))
    assert codes(state, k3s_gpu=False) == ["no-systemd", "other-kubelet"]


TEXT = f"# {OURS}\n[Service]\n"
JOINED = replace(FINE, k3s_units={AGENT: TEXT})
SERVES = replace(FINE, k3s_units={SERVICE: TEXT})


@pytest.mark.parametrize(("state", "role"), [(JOINED, "agent"), (SERVES, "server"), (FINE, "agent")])
def test_a_role_that_stays(state: HostState, role: str) -> None:
    assert codes(state, k3s_role=role, k3s_cluster="lab") == []


@pytest.mark.parametrize(
    ("state", "role", "seen", "fix"),
    [
        (JOINED, "server", "this host is an agent, and shall become a server", "as what it was"),
        (SERVES, "agent", "this host is a k3s server, and shall become an agent", "as what it was"),
        (
            replace(FINE, k3s_units={AGENT: "[Service]"}),
            "agent",
            "this host is an agent of another cluster",
            "k3s-agent-uninstall.sh",
        ),
        (
            replace(FINE, k3s_joined="server: https://10.0.0.9:6443"),
            "server",
            "config.yaml joins server: https://10.0.0.9:6443",
            "kubectl delete node",
        ),
    ],
)
def test_a_role_that_changes(state: HostState, role: str, seen: str, fix: str) -> None:
    (problem,) = judged(state, k3s_role=role, k3s_cluster="lab").blocking
    assert problem.code == "k3s-other-cluster"
    assert seen in problem.seen
    assert fix in problem.fix


@pytest.mark.parametrize("role", ["server", "agent"])
def test_the_units_of_this_project_are_told_from_others(role: str) -> None:
    """The preflight looks for a line of the unit's own text."""
    path = AGENT if role == "agent" else SERVICE
    (text, _) = contents(Settings(k3s_role=role, k3s_gpu=True))[path]
    assert codes(replace(FINE, k3s_units={path: text}), k3s_role=role, k3s_cluster="lab") == []


def names(**settings: Any) -> list[str]:
    return [one.name for one in sources(Settings(**settings))]


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, ["toolkit", "k3s", "helm", "chart"]),
        ({"k3s_gpu": True, "k3s_role": "server"}, ["toolkit", "k3s", "helm", "chart"]),
        ({"k3s_gpu": True, "k3s_role": "agent"}, ["toolkit", "k3s"]),
        ({"k3s_gpu": False, "k3s_role": "server"}, ["k3s", "helm", "chart"]),
        ({"k3s_gpu": False, "k3s_role": "agent"}, ["k3s"]),
        ({"k3s_role": "agent", "driver_install": True}, ["toolkit", "k3s", "driver"]),
        ({"k3s_gpu": False, "driver_install": True}, ["k3s", "helm", "chart"]),
    ],
)
def test_only_sources_that_will_be_used_are_asked(settings: dict[str, Any], asked: list[str]) -> None:
    assert [name.split()[0] for name in names(**settings)] == asked


def twins(one: str | None, other: str | None) -> str:
    """How severe an equal hostname is on hosts of these clusters."""
    state = replace(FINE, room=MachineState(hostname="gpu-1"))
    second = Look(state, Settings(k3s_cluster=other), name="second")
    (problem,) = judge(Look(state, Settings(k3s_cluster=one), None, "first", {"second": second})).problems
    assert problem.code == "hostname-twice"
    return problem.severity


def test_equal_names_in_one_cluster_block() -> None:
    assert twins("lab", "lab") == "blocks"
    assert twins("lab", "edge") == twins("lab", None) == twins(None, None) == "warns"
