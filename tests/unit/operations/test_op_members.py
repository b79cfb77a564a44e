"""The servers of one cluster: one founds it, the others join it, never a second cluster, and one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s import cluster, waits
from hami_k3s.facts.k3s import CLUSTER_FILE, K3s, K3sState
from hami_k3s.operations import join, members
from hami_k3s.operations import k3s as k3s_operations
from hami_k3s.templating import render
from tests.unit.operations.fake_host import Call, FakeHost, Run, Then, by_word, perform, server, written
from tests.unit.operations.test_op_k3s import RUNNING, VERSION
from tests.unit.operations.test_op_waits import Clock

FOUNDED = render("51-cluster.yaml", server="")
MEMBER = replace(RUNNING, data=True, cluster_file=FOUNDED)
FRESH = K3sState(hostname="s1")
DATA, READY = "server-ca.crt", "get --raw /readyz"
# What another server's shell says: has it the cluster's data, does its API answer?
ALIVE, SILENT, EMPTY = by_word({}), by_word({READY: None}), by_word({DATA: None, READY: None})


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (waits, k3s_operations):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the servers that were joined."""
    done: list[str] = []
    monkeypatch.setattr(join, "join", lambda state, host, to, now, limit: done.append(to.name) or True)
    return done


def servers(**answers: Any) -> list[Any]:
    """Servers of one cluster by name; "away" for one that cannot be reached."""
    made = [
        server(name, away="No route to host") if answer == "away" else server(name, answer=answer)
        for name, answer in answers.items()
    ]
    Run(*made, stage=StateStage.Execute)
    return made


def become(host: Any, now: K3sState = FRESH) -> bool:
    return members._become(None, host, now, 300)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "member"),
    [
        ({}, True),
        ({"data": False}, False),  # cut off before k3s had started: decided again
        ({"cluster_file": None}, False),  # a k3s of its own, from before
        ({"data": False, "cluster_file": None}, False),
    ],
)
def test_member(changes: dict[str, Any], member: bool) -> None:
    assert members.member(replace(MEMBER, **changes)) is member


def test_the_first_server_of_a_new_cluster_founds_it(joins: list[str]) -> None:
    s1, *_ = servers(s1=EMPTY, s2=EMPTY, s3=EMPTY)
    assert become(s1)
    assert written(s1) == {CLUSTER_FILE: (FOUNDED, "600")}
    assert "cluster-init: true" in FOUNDED
    assert "server:" not in FOUNDED
    assert joins == []


def test_a_first_server_with_data_of_its_own_founds_with_them(joins: list[str]) -> None:
    s1, *_ = servers(s1=SILENT, s2=EMPTY, s3="away")
    assert become(s1, replace(FRESH, data=True))
    assert CLUSTER_FILE in written(s1)
    assert joins == []


def test_the_others_join_the_one_that_answers(joins: list[str]) -> None:
    _, s2, s3 = servers(s1=ALIVE, s2=EMPTY, s3=EMPTY)
    assert become(s2)
    assert become(s3)
    assert joins == ["s1", "s1"]
    assert written(s2) == {}


def test_a_first_server_that_was_made_anew_joins_its_old_cluster(joins: list[str]) -> None:
    s1, *_ = servers(s1=EMPTY, s2=SILENT, s3=ALIVE)
    assert become(s1)
    assert joins == ["s3"]
    assert written(s1) == {}


def test_data_elsewhere_whose_api_is_silent_are_not_founded_over(joins: list[str]) -> None:
    s1, s2, _ = servers(s1=EMPTY, s2=SILENT, s3=SILENT)
    assert not become(s1)
    assert s1.said == ["the cluster's data are on s2, s3, whose API does not answer: nothing to join yet"]
    assert not become(s2)  # the other one has data, too
    assert "the cluster's data are on s3" in s2.heard()
    assert (joins, written(s1), written(s2)) == ([], {}, {})


def test_only_the_first_server_founds(joins: list[str]) -> None:
    _, s2 = servers(s1=EMPTY, s2=EMPTY)
    assert not become(s2)
    assert s2.said == ["the first server founds the cluster: s1 has not come up"]
    _, s2 = servers(s1="away", s2=EMPTY)
    assert not become(s2)
    assert s2.said == ["the first server founds the cluster: s1 cannot be reached (No route to host)"]
    assert (joins, written(s2)) == ([], {})


def test_nobody_founds_while_all_others_are_out_of_sight(joins: list[str]) -> None:
    s1, *_ = servers(s1=EMPTY, s2="away", s3="away")
    assert not become(s1)
    assert s1.said == [
        "s2, s3 cannot be reached, and may hold the cluster's data: a second cluster would be founded. "
        "Bring one of them up, or take them out of the fleet file"
    ]
    assert (joins, written(s1)) == ([], {})


def test_another_server_with_data_founds_when_nobody_else_has_any(joins: list[str]) -> None:
    """A k3s of its own that becomes a cluster's, written second in the fleet file."""
    _, s2 = servers(s1=EMPTY, s2=SILENT)
    assert become(s2, replace(FRESH, data=True))
    assert CLUSTER_FILE in written(s2)


def up(host: Any, *states: K3sState) -> bool:
    host.facts = {K3s: Then(list(states))}
    return members.bring_up(None, host, VERSION, 300, True)  # type: ignore[arg-type]


def test_founded_started_and_waited_for() -> None:
    s1, _ = servers(s1=EMPTY, s2=EMPTY)
    stopped = replace(MEMBER, active=None, enabled=False)
    assert up(s1, FRESH, stopped, replace(MEMBER, api=None), MEMBER)
    assert CLUSTER_FILE in written(s1)
    (start,) = [script for script in s1.scripts() if "systemctl" in script]
    assert start.startswith("systemctl enable --quiet k3s.service && ")
    assert start.endswith("systemctl restart --no-block k3s.service")
    assert not cluster.turn(s1).locked()


def test_a_member_is_restarted_and_asked_nothing(joins: list[str]) -> None:
    _, s2 = servers(s1="away", s2=SILENT)
    members._went.add(s2.state.inventory.get_host("s1"))
    assert up(s2, replace(MEMBER, stale=True), replace(MEMBER, stale=True), MEMBER)
    assert (joins, written(s2)) == ([], {})
    assert any("systemctl restart" in script for script in s2.scripts())


def test_a_k3s_that_cannot_be_started_ends_the_turn() -> None:
    s1, _ = servers(s1=by_word({"systemctl": None}), s2=EMPTY)
    assert not up(s1, replace(MEMBER, active="failed"))
    assert s1.said == ["k3s could not be started: refused"]
    assert not cluster.turn(s1).locked()
    assert s1 in members._went


def test_a_host_that_does_not_become_a_member_is_not_started() -> None:
    s1, _ = servers(s1=EMPTY, s2="away")
    assert not up(s1, FRESH)
    assert not any("systemctl" in script for script in s1.scripts())
    assert not cluster.turn(s1).locked()
    assert s1 in members._went


def test_each_waits_for_the_one_before(clock: Clock) -> None:
    s1, s2, s3 = servers(s1=ALIVE, s2=ALIVE, s3=ALIVE)
    assert not members._turn(s3, 10)
    assert clock.now - 1000 <= 2 * 10 + 30 + waits.EVERY  # two go before it
    assert "last seen: s2 goes first" in s3.heard()
    members._went.add(s1)
    assert members._turn(s2, 10)
    assert not members._turn(s1, 10)
    assert "last seen: another server is being changed" in s1.heard()
    cluster.turn(s2).release()


def test_one_that_has_failed_is_not_waited_for() -> None:
    s1, s2, s3 = servers(s1=ALIVE, s2=ALIVE, s3=ALIVE)
    s1.state.fail(s1)
    assert members._turn(s2, 10)
    cluster.turn(s2).release()
    s1.state.fail(s2)
    assert members._turn(s3, 10)
    cluster.turn(s3).release()


def test_a_turn_that_does_not_come_is_no_change(joins: list[str]) -> None:
    _, s2 = servers(s1=ALIVE, s2=EMPTY)
    assert not up(s2, FRESH)
    assert (joins, s2.ran) == ([], [])
    assert s2 in members._went


def operation(host: FakeHost, state: K3sState) -> tuple[list[Any], str | None]:
    host.facts = {K3s: state}
    return perform(host, members.server, version=VERSION, limit=300, gpu=True)


def test_servers_that_are_right_are_left_alone() -> None:
    s1, s2 = servers(s1=ALIVE, s2=ALIVE)
    assert operation(s1, MEMBER) == ([], f"k3s {VERSION} is ready")
    assert members._turn(s2, 10)  # nobody needs to wait for it
    cluster.turn(s2).release()


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster_file": None},
        {"data": False},
        {"stale": True},
        {"active": None},
        {"enabled": False},
        {"api": None},
        {"runtime_class": False},
    ],
)
def test_servers_that_must_be_changed_or_waited_for(changes: dict[str, Any]) -> None:
    s1, _ = servers(s1=ALIVE, s2=ALIVE)
    (call,), noop = operation(s1, replace(MEMBER, **changes))
    assert isinstance(call, Call)
    assert (call.function, call.arguments, noop) == ("bring_up", (VERSION, 300, True), None)
    assert s1 not in members._went


def test_a_dry_run_takes_no_turn() -> None:
    s1, _ = servers(s1=ALIVE, s2=ALIVE)
    s1.state.current_stage = StateStage.Prepare
    assert operation(s1, MEMBER) == ([], f"k3s {VERSION} is ready")
    assert s1 not in members._went
