"""Joining a cluster: token and address from a server, the CA checked, the node's name free; refused with the reason."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s import waits
from hami_k3s.facts.k3s import CLUSTER_FILE, SERVER_TOKEN, TOKEN_FILE, K3sState
from hami_k3s.facts.kubernetes import KUBECTL
from hami_k3s.operations import join
from hami_k3s.templating import render
from tests.unit.operations.fake_host import Run, agent, by_word, server, written
from tests.unit.operations.test_op_waits import Clock

CA = b"-----BEGIN CERTIFICATE-----\nthe servers' own\n-----END CERTIFICATE-----\n"
SECRET = "f3b1c0ffee"
TOKEN = f"K10{hashlib.sha256(CA).hexdigest()}::server:{SECRET}"
SHOWN = b64encode(CA).decode()
NEW = K3sState(hostname="a1")
NAME, ADDRESS = "--ignore-not-found -o jsonpath", 'get node "$(hostname'


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waits, "time", clock)
    return clock


def pair(
    answers: dict[str, str | None] | None = None,
    shown: str | None = SHOWN,
    data: dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    """A server with a token, and an agent that sees this CA there."""
    usual: dict[str, str | None] = {f"cat {SERVER_TOKEN}": TOKEN, 'get node "$(hostname': "10.0.0.1"}
    s1 = server("s1", answer=by_word({**(answers or {}), **usual}), data=data or {})
    a1 = agent("a1", answer=by_word({"/cacerts": shown}))
    Run(s1, a1, stage=StateStage.Execute)
    return a1, s1


def joins(a1: Any, s1: Any, now: K3sState = NEW, limit: int = 300) -> bool:
    return join.join(None, a1, s1, now, limit)  # type: ignore[arg-type]


def test_token_and_address_are_written(clock: Clock) -> None:
    a1, s1 = pair()
    assert joins(a1, s1)
    text = render("51-cluster.yaml", server="https://10.0.0.1:6443", token_file=TOKEN_FILE)
    assert written(a1) == {TOKEN_FILE: (f"{TOKEN}\n", "600"), CLUSTER_FILE: (text, "600")}
    assert f"server: https://10.0.0.1:6443\ntoken-file: {TOKEN_FILE}\n" in text
    assert join.address(K3sState(cluster_file=text)) == "10.0.0.1"
    assert clock.now == 1000.0
    assert written(s1) == {}


def test_the_token_is_in_no_command_line_and_no_message() -> None:
    a1, s1 = pair({NAME: "a1 False"})
    assert joins(a1, s1)
    hidden = (TOKEN, SECRET, b64encode(f"{TOKEN}\n".encode()).decode())
    for host in (a1, s1):
        for line in [*host.ran, *host.said]:
            assert not any(one in line for one in hidden)
    (sent,) = [text for text in a1.inputs if text]
    assert hidden[2] in sent


@pytest.mark.parametrize(
    ("node_ip", "url"),
    [("192.168.7.1", "https://192.168.7.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
def test_the_address_for_nodes_that_was_given(node_ip: str, url: str) -> None:
    a1, s1 = pair(data={"k3s_node_ip": node_ip})
    assert joins(a1, s1)
    assert f"server: {url}\n" in written(a1)[CLUSTER_FILE][0]
    assert not any(ADDRESS in script for script in s1.scripts())


@pytest.mark.parametrize("token", ["", "f3b1c0ffee", "K10abc::server:f3b1c0ffee"])
def test_a_token_without_the_cas_hash_is_refused(token: str) -> None:
    a1, s1 = pair()
    s1.answer = by_word({f"cat {SERVER_TOKEN}": token})
    assert not joins(a1, s1)
    assert a1.said == [f"{SERVER_TOKEN} on s1 holds no full token (K10...)"]
    assert a1.ran == []


def test_a_server_whose_address_nobody_knows() -> None:
    a1, s1 = pair()
    s1.answer = by_word({f"cat {SERVER_TOKEN}": TOKEN, ADDRESS: None})
    assert not joins(a1, s1)
    assert a1.said == ["the address of s1 is not known: set k3s_node_ip for it"]


@pytest.mark.parametrize("shown", [b64encode(b"another CA").decode(), "not base64!"])
def test_another_ca_at_that_address_is_sent_nothing(clock: Clock, shown: str) -> None:
    a1, s1 = pair(shown=shown)
    assert not joins(a1, s1)
    assert "another CA than the one of s1: nothing was sent to it" in a1.heard()
    assert "set k3s_node_ip for it" in a1.heard()
    assert written(a1) == {}
    assert clock.now == 1000.0


@pytest.mark.parametrize("shown", ["", None])
def test_a_server_that_does_not_answer_this_host(clock: Clock, shown: str | None) -> None:
    a1, s1 = pair(shown=shown)
    assert not joins(a1, s1, limit=20)
    assert clock.now <= 1000 + 20 + waits.EVERY
    assert "last seen: https://10.0.0.1:6443 does not answer this host" in a1.heard()
    assert "a firewall, a route?" in a1.heard()
    assert "k3s_ready_timeout is the limit" in a1.heard()
    assert written(a1) == {}


def test_a_host_that_is_lost_meanwhile(clock: Clock) -> None:
    a1, s1 = pair()

    def lost(script: str, stdin: str | None) -> tuple[bool, str]:
        raise OSError("Socket is closed")

    a1.answer = lost
    assert not joins(a1, s1)
    assert "server: the host cannot be reached any more (OSError: Socket is closed)" in a1.said
    assert clock.now == 1000.0


GONE = f"{KUBECTL} delete node a1 --ignore-not-found && {KUBECTL} -n kube-system delete secret a1.node-password.k3s"


def test_an_old_node_of_this_name_is_removed() -> None:
    a1, s1 = pair(
        {NAME: "a1 Unknown", "delete node": 'node "a1" deleted\nsecret "a1.node-password.k3s" deleted'}
    )
    assert joins(a1, s1)
    assert any(GONE in script for script in s1.scripts())
    assert 'left in the cluster: node "a1" deleted, secret "a1.node-password.k3s" deleted' in a1.heard()


def test_a_secret_that_a_node_left_is_removed_too() -> None:
    """kubectl delete node leaves it where k3s was down at that moment."""
    a1, s1 = pair({NAME: ""})
    assert joins(a1, s1)
    assert any(GONE in script for script in s1.scripts())
    assert a1.said == []


def test_a_node_that_lives_keeps_its_name(clock: Clock) -> None:
    a1, s1 = pair({NAME: "a1 True"})
    assert not joins(a1, s1)
    assert clock.now <= 1000 + join.STALE_S + waits.EVERY
    assert "a node named a1 is in the cluster and Ready" in a1.heard()
    assert "hostnamectl set-hostname" in a1.heard()
    assert "`kubectl delete node a1` on s1 first" in a1.heard()
    assert not any("delete node" in script for script in s1.scripts())
    assert written(a1) == {}


def test_a_node_that_has_just_gone_is_waited_for() -> None:
    a1, s1 = pair()
    seen = ["a1 True", "a1 True", "a1 Unknown"]

    def answer(script: str, stdin: str | None) -> tuple[bool, str]:
        if NAME in script:
            return True, seen.pop(0)
        return by_word({f"cat {SERVER_TOKEN}": TOKEN, ADDRESS: "10.0.0.1"})(script, stdin)

    s1.answer = answer
    assert joins(a1, s1)
    assert seen == []
    assert any(GONE in script for script in s1.scripts())


def test_an_api_that_is_silent_about_the_name_is_waited_for() -> None:
    a1, s1 = pair({NAME: None})
    assert not joins(a1, s1)
    assert "last seen: the API of s1 does not answer" in a1.heard()


def test_an_old_node_that_cannot_be_removed() -> None:
    a1, s1 = pair({NAME: "a1 False", "delete node": None})
    assert not joins(a1, s1)
    assert a1.said == ["the old node a1 could not be removed on s1: refused"]
    assert written(a1) == {}


def test_a_machine_that_was_this_node_before_keeps_its_node() -> None:
    a1, s1 = pair({NAME: "a1 True"})
    assert joins(a1, s1, replace(NEW, password=True))
    assert not any("node a1" in script for script in s1.scripts())


def test_files_that_cannot_be_written() -> None:
    a1, s1 = pair()
    a1.answer = by_word({"/cacerts": SHOWN, "sh -s": None})
    assert not joins(a1, s1)
    assert a1.said == [f"{TOKEN_FILE}, {CLUSTER_FILE} could not be written: refused"]
