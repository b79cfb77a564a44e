"""Has a host joined its cluster, and who waits for whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s.facts.k3s import CLUSTER_FILE, TOKEN_FILE, K3sState
from hami_k3s.facts.kubernetes import Node
from hami_k3s.operations import join
from hami_k3s.templating import render
from tests.unit.facts.answers import answered
from tests.unit.operations.fake_host import Call, by_word, perform, written
from tests.unit.operations.test_op_join import SHOWN, pair

HERE = K3sState(
    cluster_file=render("51-cluster.yaml", server="https://10.0.0.1:6443", token_file=TOKEN_FILE),
    token="a",
    server_token="a",
    nodes={"s1": Node("s1", True, address="10.0.0.1", server=True)},
)


@pytest.mark.parametrize(
    ("changes", "joined"),
    [
        ({}, True),
        ({"cluster_file": None}, False),
        ({"cluster_file": "# server: https://10.0.0.1:6443\n"}, False),
        ({"token": None}, False),
        ({"server_token": "b"}, False),  # the token was rotated, or the cluster made anew
        ({"server_token": None}, True),  # no server says another one
        ({"nodes": None}, True),
        ({"nodes": {"a1": Node("a1", True, address="10.0.0.1")}}, True),  # no server is known by its address
        ({"nodes": {"s2": Node("s2", True, address="10.0.0.2", server=True)}}, False),  # that one has gone
        (
            {
                "nodes": {
                    "s1": Node("s1", False, address="10.0.0.1", server=True),
                    "s2": Node("s2", True, address="10.0.0.2", server=True),
                }
            },
            True,  # down for a moment is not gone
        ),
    ],
)
def test_joined(changes: dict[str, Any], joined: bool) -> None:
    assert join.joined(replace(HERE, **changes)) is joined


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (None, None),
        (render("51-cluster.yaml", server=""), None),
        ("server: https://10.0.0.1:6443\n", "10.0.0.1"),
        ("server: https://s1.example:6443\ntoken-file: x", "s1.example"),
    ],
)
def test_address(text: str | None, address: str | None) -> None:
    assert join.address(K3sState(cluster_file=text)) == address


def test_address_as_the_api_writes_it() -> None:
    """Brackets belong to the URL, not to the address."""
    text = render("51-cluster.yaml", server="https://[fd00::1]:6443", token_file=TOKEN_FILE)
    servers = {"s1": Node("s1", True, address="fd00::1", server=True)}
    assert join.joined(replace(HERE, cluster_file=text, nodes=servers))


def answering(now: dict[str, Any]) -> tuple[Any, Any]:
    """An agent and its server, both halves of k3s' state given."""
    a1, s1 = pair({"/api/v1/nodes": "\n".join(answered({"server_token": "a  -", "api": "ok"}))})
    a1.answer = by_word({"/cacerts": SHOWN, "hostname | tr": "\n".join(answered({"hostname": "a1", **now}))})
    return a1, s1


def test_an_agent_that_has_joined() -> None:
    a1, _ = answering({"cluster_file": HERE.cluster_file, "token": "a  -"})
    assert perform(a1, join.agent, limit=300) == ([], "joined")


def test_an_agent_that_has_not() -> None:
    a1, _ = answering({})
    (call,), noop = perform(a1, join.agent, limit=300)
    assert isinstance(call, Call)
    assert (call.function, call.arguments, noop) == ("enter", (300,), None)
    assert call.run(a1)
    assert set(written(a1)) == {TOKEN_FILE, CLUSTER_FILE}


def test_no_server_to_join() -> None:
    a1, s1 = pair()
    s1.answer = by_word({"readyz": None})
    assert not join.enter(None, a1, 300)  # type: ignore[arg-type]
    assert a1.said == ["no server to join: the API of s1 does not answer"]


def test_an_agent_waits_for_a_server_that_can_be_used() -> None:
    a1, s1 = pair()
    assert perform(a1, join.together, step="the servers are ready") == ([], "the servers are ready")
    assert perform(s1, join.together, step="the servers are ready") == ([], "the servers are ready")


def test_an_agent_stops_where_no_server_can_be_used() -> None:
    a1, s1 = pair()
    s1.answer = by_word({"readyz": None})
    (call,), noop = perform(a1, join.together, step="the servers are ready")
    assert noop is None
    assert isinstance(call, Call)
    assert call.run(a1) is False
    assert a1.said == [
        "nothing was done here: no server of cluster lab can be used: the API of s1 does not answer. "
        "Run the same command again for them and this host"
    ]
    assert perform(s1, join.together, step="the servers are ready") == ([], "the servers are ready")


def test_a_dry_run_waits_for_nobody() -> None:
    a1, s1 = pair()
    s1.state.current_stage = StateStage.Prepare
    assert perform(a1, join.together, step="the servers are ready") == ([], "the servers are ready")
    assert s1.ran == []
