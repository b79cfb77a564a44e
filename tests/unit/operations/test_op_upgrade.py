"""Turns, cordons with a mark, evictions through the API, and a refusal that holds for a whole cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gevent
import pytest
from pyinfra.api.state import StateStage

from hami_k3s import waits
from hami_k3s.facts.hami import HamiState
from hami_k3s.isolation.evidence import Webhook
from hami_k3s.operations import drain, hami, perform, roll, upgrade
from hami_k3s.settings import Settings
from tests.unit.operations.fake_host import FakeHost, Run, Then, agent, server
from tests.unit.operations.fake_host import perform as operate
from tests.unit.operations.test_op_waits import Clock
from tests.unit.test_lib_gates import DONE


class Turns(Clock):
    """Waiting lets the other hosts go on."""

    def sleep(self, seconds: float) -> None:
        gevent.sleep(0.001)
        super().sleep(seconds)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "time", Turns())
    for module in (waits, drain):
        monkeypatch.setattr(module, "time", Clock())
    monkeypatch.setattr(roll, "_rolls", {})
    monkeypatch.setattr(upgrade, "_problems", {})


@pytest.mark.parametrize("places", [1, 2, 3])
def test_never_more_than_upgrade_parallel_nodes_are_inside(places: int) -> None:
    hosts: list[Any] = [agent(f"a{number}") for number in range(6)]
    Run(server("s1"), *hosts)
    most: list[int] = []

    def window(host: Any) -> None:
        assert roll.enter(host, places, 3000)
        most.append(len(roll.of(host).inside))
        gevent.sleep(0.01)
        roll.leave(host, True)

    gevent.joinall([gevent.spawn(window, host) for host in hosts], raise_error=True)
    assert max(most) == places
    assert len(most) == 6


def test_after_a_failure_nobody_begins_and_everybody_is_told_whose() -> None:
    first, second, other = agent("a1"), agent("a2"), FakeHost(name="solo")
    Run(server("s1"), first, second, other)
    hosts: list[Any] = [first, second, other]
    assert roll.enter(hosts[0], 1, 30)
    roll.leave(hosts[0], False)
    assert not roll.enter(hosts[1], 1, 30)
    assert "not started, this host is as it was: the upgrade stopped at a1" in second.heard()
    assert roll.enter(hosts[2], 1, 30)  # of another group


def test_a_turn_that_does_not_come_ends_with_the_reason() -> None:
    first, second = agent("a1"), agent("a2")
    Run(server("s1"), first, second)
    hosts: list[Any] = [first, second]
    assert roll.enter(hosts[0], 1, 30)
    assert not roll.enter(hosts[1], 1, 30)
    assert "a1 took longer than 30 s" in second.heard()


class Api:
    """A node and its pods, as kubectl on a server shows and changes them."""

    def __init__(self, *pods: str, unschedulable: bool = False, mark: bool = False) -> None:
        self.pods = list(pods)
        self.annotations = {drain.MARK: "2026-07-07T00:00:00Z"} if mark else {}
        self.unschedulable = unschedulable
        self.guarded: set[str] = set()
        self.changes: list[str] = []

    def __call__(self, script: str, stdin: str | None) -> tuple[bool, str]:
        if "get node " in script:
            meta, spec = {"annotations": self.annotations}, {"unschedulable": self.unschedulable}
            return True, json.dumps({"metadata": meta, "spec": spec})
        if "fieldSelector" in script:
            return True, json.dumps({"items": [self._pod(name) for name in self.pods]})
        if "/eviction" in script:
            name = json.loads(stdin or "")["metadata"]["name"]
            if name in self.guarded:
                return False, "Cannot evict pod as it would violate the pod's disruption budget."
            self.pods.remove(name)
            self.changes.append(f"evicted {name}")
            return True, ""
        self.changes += [word for word in ("uncordon", "cordon node") if f" {word} " in f"{script} "]
        self.changes += ["cordon"] if " cordon a1" in script else []
        return True, ""

    def _pod(self, name: str) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": "1"} if not name.startswith("plain") else {}
        spec = {"nodeName": "a1", "containers": [{"resources": {"limits": limits}}]}
        return {"metadata": {"namespace": "x", "name": name}, "spec": spec, "status": {"phase": "Running"}}


def host(api: Api) -> Any:
    made = FakeHost(answer=api, name="a1")
    Run(made, stage=StateStage.Execute)
    return made


def test_what_somebody_else_cordoned_is_left_alone() -> None:
    api = Api(unschedulable=True)
    assert drain.cordon(None, host(api), "a1")  # type: ignore[arg-type]
    assert drain.uncordon(None, host(api), "a1")  # type: ignore[arg-type]
    assert api.changes == []


def test_what_we_cordoned_is_put_back_also_by_a_later_run() -> None:
    api = Api()
    assert drain.cordon(None, host(api), "a1")  # type: ignore[arg-type]
    assert api.changes == ["cordon"]
    again = Api(unschedulable=True, mark=True)
    assert drain.cordon(None, host(again), "a1")  # type: ignore[arg-type]
    assert again.changes == []
    assert drain.uncordon(None, host(again), "a1")  # type: ignore[arg-type]
    assert again.changes == ["uncordon"]


def test_gpu_pods_are_evicted_and_others_stay() -> None:
    api = Api("train", "plain", "infer")
    assert drain.evict(None, host(api), Settings(), "a1")  # type: ignore[arg-type]
    assert sorted(api.changes) == ["evicted infer", "evicted train"]
    assert api.pods == ["plain"]


def test_a_disruption_budget_holds_and_is_named_at_the_limit() -> None:
    api = Api("train", "guarded")
    api.guarded = {"guarded"}
    made = host(api)
    assert not drain.evict(None, made, Settings(upgrade_drain_timeout=10), "a1")  # type: ignore[arg-type]
    assert api.pods == ["guarded"]
    assert "x/guarded: Cannot evict pod as it would violate the pod's disruption budget" in made.heard()
    assert "upgrade_drain_timeout is the limit" in made.heard()


def test_one_refused_host_refuses_its_cluster_and_no_other_one() -> None:
    members: list[Any] = [server("s1"), agent("a1"), agent("a2")]
    solo: Any = FakeHost(name="solo")
    Run(*members, solo, stage=StateStage.Execute)
    upgrade._problems["a1"] = ["1 pod has a card of node a1"]
    said = {}
    for one in [*members, solo]:
        commands, noop = operate(one, upgrade.allowed, target=None)
        said[one.name] = commands[0].arguments[0] if commands else noop
    assert said["a1"] == "1 pod has a card of node a1\nNothing was changed on this host."
    assert (
        said["s1"] == said["a2"] == "a1 of its cluster cannot be upgraded: nothing was changed on this host"
    )
    assert said["solo"] == "may be upgraded"


def test_commands_inside_an_operation_end_at_the_first_that_fails() -> None:
    from pyinfra.api import FunctionCommand, StringCommand

    done: list[str] = []

    def note(state: Any, host: Any, text: str, ok: bool) -> bool:
        done.append(text)
        return ok

    def body(ok: bool) -> Any:
        yield FunctionCommand(note, ("first", ok), {})
        yield StringCommand("true")
        yield FunctionCommand(note, ("last", True), {})

    made = host(Api())
    made.state.print_output = made.state.print_input = False
    assert not perform.perform(made.state, made, body(False))  # type: ignore[arg-type]
    assert perform.perform(made.state, made, body(True))  # type: ignore[arg-type]
    assert done == ["first", "first", "last"]


LATE = replace(DONE, webhook=Webhook((), None, True, "Ignore"))


@pytest.mark.parametrize(
    ("states", "looks", "done"),
    [([DONE], 1, True), ([LATE, LATE, DONE], 3, True), ([LATE], 4, False)],
)
def test_nothing_is_evicted_while_new_pods_would_not_reach_hami(
    states: list[HamiState], looks: int, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[HamiState] = []
    left = Then([*states])

    def fresh(host: Any, fact: Any, **arguments: Any) -> HamiState:
        seen.append(left.next())
        return seen[-1]

    monkeypatch.setattr(hami.trusted, "fresh", fresh)
    made = host(Api())
    assert hami.wait_redirects(None, made, "hami", "kube-system", 1) is done  # type: ignore[arg-type]
    assert len(seen) >= looks
    if not done:
        assert "the webhook has no endpoints yet" in made.heard()
