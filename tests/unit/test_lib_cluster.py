"""Which hosts are a cluster, and through which of its servers an agent asks the API."""

from __future__ import annotations

from typing import Any

import gevent  # type: ignore[import-untyped]
import pyinfra
import pytest
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_host

from hami_k3s import cluster, remote
from tests.unit.operations.fake_host import FakeHost, Run, agent, server

SILENT: Any = lambda script, stdin: (False, "connection refused")  # noqa: E731


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(cluster, "time", clock)
    return clock


def lab(servers: int = 3, agents: int = 4, **more: Any) -> list[Any]:
    """Hosts of the cluster lab: servers s1, s2..., agents a1, a2..."""
    made = [server(f"s{number + 1}", **more) for number in range(servers)]
    made += [agent(f"a{number + 1}") for number in range(agents)]
    Run(*made, stage=StateStage.Execute)
    return made


def test_members_of_two_clusters_and_none() -> None:
    alone: Any = FakeHost(name="alone")
    a1, s1, s2 = agent("a1"), server("s1"), server("s2")
    e1: Any = server("e1", data={"k3s_cluster": "edge"})
    Run(alone, a1, s1, e1, s2)
    of_lab: Any = a1
    assert cluster.members(of_lab) == [a1, s1, s2]
    assert cluster.servers(of_lab) == [s1, s2]
    assert cluster.members(e1) == cluster.servers(e1) == [e1]
    assert cluster.members(alone) == cluster.servers(alone) == [alone]
    assert [cluster.name(one) for one in (of_lab, e1, alone)] == ["lab", "edge", None]
    assert [cluster.unit(one) for one in (of_lab, e1, alone)] == ["k3s-agent", "k3s", "k3s"]
    assert cluster.has_clusters(alone)
    single: Any = FakeHost()
    assert not cluster.has_clusters(single)


def test_the_host_of_an_operation_is_the_real_one() -> None:
    """There `host` stands for whichever host is at work."""
    s1, s2 = lab(2, 0)
    with ctx_host.use(s2):
        assert cluster.real(pyinfra.host) is s2
        assert cluster.api(pyinfra.host) is s2
        assert not cluster.elected(pyinfra.host)
    with ctx_host.use(s1):
        assert cluster.elected(pyinfra.host)


def test_place_that_no_fleet_file_has_checked() -> None:
    stray: Any = FakeHost(name="x", data={"k3s_role": "agent"})
    assert cluster.problem(stray) == "k3s_role: x is an agent of no cluster; set k3s_cluster"
    (a1,) = lab(0, 1)
    assert "cluster lab has agents and no server" in (cluster.problem(a1) or "")
    assert {cluster.problem(one) for one in lab(1, 1)} == {None}


def test_the_first_server_that_goes_on_does_what_is_done_once() -> None:
    hosts = lab(3, 1)
    s1, s2, s3, _ = hosts
    run = s1.state
    assert [cluster.elected(one) for one in hosts] == [True, False, False, False]
    run.fail(s1)
    assert [cluster.elected(one) for one in hosts] == [False, True, False, False]
    run.fail(s2)
    run.fail(s3)
    assert not any(map(cluster.elected, hosts))


def test_one_turn_per_cluster() -> None:
    s1, s2 = lab(2, 0)
    other: Any = FakeHost(name="turn-of-its-own")
    assert cluster.turn(s1) is cluster.turn(s2)
    assert cluster.turn(other) is not cluster.turn(s1)


def test_agents_are_spread_over_the_servers() -> None:
    hosts = lab(3, 4)
    assert [cluster.api(one).name for one in hosts[:3]] == ["s1", "s2", "s3"]  # type: ignore[union-attr]
    assert [cluster.api(one).name for one in hosts[3:]] == ["s1", "s2", "s3", "s1"]  # type: ignore[union-attr]
    assert all(not one.ran for one in hosts[3:])  # an agent is not asked itself


def test_a_server_that_answered_is_trusted_for_a_while(clock: Any) -> None:
    s1, a1 = lab(1, 1)
    for _ in range(3):
        assert cluster.api(a1) is s1
    assert len(s1.ran) == 1
    assert "get --raw /readyz" in s1.ran[0]
    clock.now += cluster.TRUSTED_S + 1
    assert cluster.api(a1) is s1
    assert len(s1.ran) == 2


def test_the_next_server_stands_in_for_a_silent_one() -> None:
    s1, s2, s3, a1, a2 = lab(3, 2)
    s1.answer = SILENT
    assert cluster.api(a1) is s2
    s2.answer = SILENT
    cluster._answered.pop(s2)
    assert [cluster.api(a1), cluster.api(a2)] == [s3, s3]
    assert len(s1.ran) == 2  # silence is not trusted: it may have come up


def test_no_server_answers() -> None:
    s1, s2, a1 = lab(2, 1)
    s1.answer = s2.answer = SILENT
    s1.state.fail(s2)
    assert cluster.api(a1) is None
    assert cluster.silence(a1) == "the API of s1 does not answer; s2 failed in this run"
    result = cluster.ask(a1, "kubectl get nodes")
    assert (result.ok, result.stderr) == (False, cluster.silence(a1))


def test_no_server_at_all() -> None:
    (a1,) = lab(0, 1)
    assert cluster.api(a1) is None
    assert cluster.silence(a1) == "cluster lab has no server"


def test_a_server_that_this_run_left_out_is_connected_to() -> None:
    s1, a1 = lab(1, 1)
    s1.connected = False
    assert cluster.api(a1) is s1
    assert s1.connected


def test_a_server_that_cannot_be_reached_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    s1, s2, a1 = lab(2, 1)
    s1.connected, s1.away = False, "No route to host"
    tried: list[str] = []
    connect = s1.connect
    monkeypatch.setattr(s1, "connect", lambda **how: tried.append(how["reason"]) or connect(**how))
    assert [cluster.api(a1), cluster.api(a1)] == [s2, s2]
    assert len(tried) == 1
    assert s1.ran == []
    assert cluster.why_not(s1) == "s1 cannot be reached (No route to host)"


def test_a_server_is_asked_with_its_own_sudo() -> None:
    """The operation that runs now is the agent's: its user and the server's may differ."""
    s1, a1 = lab(1, 1, data={"_sudo": True, "_sudo_user": "operator"})
    s1.current_op_global_arguments, a1.current_op_global_arguments = None, {"_sudo": False}
    s1.answer = lambda script, stdin: (True, "NAME")
    assert cluster.ask(a1, "kubectl get nodes", "input", 7).stdout == "NAME"
    assert (s1.arguments[-1]["_sudo"], s1.arguments[-1]["_sudo_user"]) == (True, "operator")
    assert (s1.inputs[-1], s1.ran[-1]) == ("input", "timeout -k 5 7 sh -c 'kubectl get nodes'")
    # Clean-up after the operation: what was kept of the agent's operation is not the server's.
    assert cluster.ask(a1, "true", given={"_sudo": False}).ok
    assert s1.arguments[-1]["_sudo"] is True
    assert cluster.ask(s1, "true", given={"_sudo": False}).ok
    assert s1.arguments[-1]["_sudo"] is False
    assert a1.ran == []


def test_a_server_is_asked_a_few_things_at_a_time() -> None:
    """By its agents and by its own operations, where `host` only stands for it."""
    s1, a1 = lab(1, 1)
    at_once = [0]
    most = [0]

    def answer(script: str, stdin: str | None) -> tuple[bool, str]:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        gevent.sleep(0.01)
        at_once[0] -= 1
        return True, ""

    def ask(own: Any, asked: Any) -> None:
        with ctx_host.use(own):
            assert remote.run(asked, "true").ok

    s1.answer = answer
    asking = [gevent.spawn(ask, s1, pyinfra.host) for _ in range(10)]
    asking += [gevent.spawn(ask, a1, s1) for _ in range(10)]
    gevent.joinall(asking, raise_error=True)
    assert (len(s1.ran), most[0]) == (20, remote.CHANNELS)


def test_are_operations_executed_now() -> None:
    (s1,) = lab(1, 0)
    assert cluster.executing(s1)
    s1.state.current_stage = StateStage.Prepare
    assert not cluster.executing(s1)
