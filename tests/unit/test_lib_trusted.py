"""Readings that are shared until something changes; on an agent each has a half from the host and one from a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s import trusted
from hami_k3s.facts.k3s import API, MEMBER, PROBES, SERVER, K3s, K3sState
from hami_k3s.facts.nvidia import OnBus
from tests.unit.facts.answers import answered
from tests.unit.operations.fake_host import FakeHost, Run
from tests.unit.test_lib_cluster import SILENT, lab

NODES = {
    "items": [
        {
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for name in ("a1", "a2")
    ]
}


def agents_answer(name: str) -> Any:
    return lambda script, stdin: (True, "\n".join(answered({"hostname": name, "token": "a0  -"})))


def servers_answer(script: str, stdin: str | None) -> tuple[bool, str]:
    return True, "\n".join(answered({"server_token": "5e  -", "api": "ok", "nodes": NODES}))


@pytest.fixture
def hosts() -> list[Any]:
    """s1, a1, a2; the agents are asked for k3s' state."""
    s1, a1, a2 = lab(1, 2)
    s1.answer, a1.answer, a2.answer = servers_answer, agents_answer("a1"), agents_answer("a2")
    return [s1, a1, a2]


def state(host: Any, fresh: bool = False) -> K3sState:
    reading = trusted.fresh if fresh else trusted.read
    return reading(host, K3s, api=True, unit="k3s-agent", member=True)


def asked(host: FakeHost) -> int:
    """How often its API was asked, not counting whether it answers."""
    return sum("/api/v1/nodes" in script for script in host.ran)


def changed(host: FakeHost) -> None:
    """An operation has changed it."""
    meta = SimpleNamespace(is_complete=lambda: True, executed=True)
    host.state.ops[host][f"op-{len(host.state.ops[host])}"] = SimpleNamespace(operation_meta=meta)


def test_both_halves_of_an_agent(hosts: list[Any]) -> None:
    s1, a1, a2 = hosts
    for name, host in (("a1", a1), ("a2", a2)):
        now = state(host)
        assert (now.hostname, now.token, now.api, now.server_token) == (name, "a0", "ok", "5e")
        assert now.own is not None
        assert now.own.name == name
    (own,) = a1.ran
    assert f"'{' '.join({**PROBES, **MEMBER})}'" in own
    assert "k3s-agent.service" in own
    assert not any(path in own for path in API.values())
    (script,) = [one for one in s1.ran if "/api/v1/nodes" in one]
    assert all(name in script for name in {**SERVER, **API})
    assert "k3s-agent.service" not in script


def test_agents_share_one_answer_of_the_api(hosts: list[Any]) -> None:
    s1, a1, a2 = hosts
    for _ in range(2):
        assert [state(one).hostname for one in (a1, a2)] == ["a1", "a2"]
    assert (asked(s1), len(a1.ran), len(a2.ran)) == (1, 1, 1)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_change_anywhere_in_the_cluster_makes_the_next_one_look_again(hosts: list[Any], which: int) -> None:
    s1, a1, a2 = hosts
    state(a1)
    changed(hosts[which])
    state(a1)
    state(a2)
    assert (asked(s1), len(a1.ran)) == (2, 2)


def test_changes_of_another_cluster_change_nothing(hosts: list[Any]) -> None:
    s1, a1, _ = hosts
    other = FakeHost(name="other")
    Run(*hosts, other, stage=StateStage.Execute)
    state(a1)
    changed(other)
    state(a1)
    assert asked(s1) == 1


def test_fresh_is_as_it_is_now(hosts: list[Any]) -> None:
    s1, a1, a2 = hosts
    state(a1)
    assert state(a1, fresh=True).hostname == "a1"
    assert state(a2, fresh=True).hostname == "a2"
    assert asked(s1) == 3


def test_nothing_is_trusted_while_operations_are_only_prepared(hosts: list[Any]) -> None:
    s1, a1, _ = hosts
    s1.state.current_stage = StateStage.Prepare
    state(a1)
    state(a1)
    assert (asked(s1), len(a1.ran)) == (2, 2)


def test_what_no_server_says_is_unknown(hosts: list[Any]) -> None:
    s1, a1, _ = hosts
    s1.answer = SILENT
    now = state(a1)
    assert (now.hostname, now.token) == ("a1", "a0")
    assert (now.api, now.nodes, now.own, now.server_token) == (None,) * 4


def test_without_the_api_no_server_is_asked(hosts: list[Any]) -> None:
    s1, a1, _ = hosts
    assert trusted.read(a1, K3s, api=False, unit="k3s-agent", member=True).hostname == "a1"
    assert s1.ran == []


def test_what_is_planned_is_read_with_the_first_of_it(
    hosts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one command on the agent; what the API answers comes from the server, as always."""
    s1, a1, _ = hosts
    monkeypatch.setattr(trusted, "_planned", {})
    together: list[int] = []
    monkeypatch.setattr(
        trusted.together,
        "read",
        lambda host, wanted: (
            together.append(len(wanted)) or [host.get_fact(one, **given) for one, given in wanted]
        ),
    )
    a1.facts = {OnBus: True}
    member = {"api": True, "unit": "k3s-agent", "member": True}
    trusted.plan(a1, OnBus)
    trusted.plan(a1, K3s, **member)
    assert trusted.read(a1, OnBus)
    assert trusted.read(a1, K3s, **member).own == state(a1).own is not None
    assert (together, asked(s1)) == ([2], 1)
    changed(a1)
    assert trusted.read(a1, OnBus)  # most of the others will be changed too, before they are asked for
    assert together == [2, 1]


def test_servers_and_other_facts_are_read_by_pyinfra() -> None:
    s1, a1 = lab(1, 1)
    s1.facts, a1.facts = {K3s: K3sState(hostname="s1")}, {OnBus: True}
    assert state(s1).hostname == "s1"
    assert trusted.read(a1, OnBus)
    assert s1.ran == a1.ran == []
