"""The label of this host's own node."""

import shlex
from dataclasses import replace
from typing import Any

import pytest

from hami_k3s import cluster
from hami_k3s.facts.k3s import K3s
from hami_k3s.facts.kubernetes import KUBECTL
from hami_k3s.operations import kubectl
from tests.unit.facts.answers import answered
from tests.unit.operations.fake_host import Call, FakeHost, by_word, operate
from tests.unit.operations.test_op_k3s import NODE, RUNNING
from tests.unit.test_lib_cluster import SILENT, lab


def label(labels: dict[str, str] | None, key: str = "gpu", value: str = "on") -> tuple[list[Any], str | None]:
    own = None if labels is None else replace(NODE, labels=labels)
    return operate(kubectl.node_label, {K3s: replace(RUNNING, own=own)}, key=key, value=value)


def test_label_that_is_there() -> None:
    assert label({"gpu": "on"}) == ([], "the node is labelled gpu=on")


@pytest.mark.parametrize("labels", [{}, {"gpu": "off"}, None])
def test_label_that_is_missing_or_other_or_unknown(labels: dict[str, str] | None) -> None:
    """When the API did not answer, kubectl will say why."""
    (call,), noop = label(labels)
    assert isinstance(call, Call)
    assert (call.function, call.arguments, noop) == ("label", ("gpu", "on"), None)


def test_values_are_data_not_shell() -> None:
    host: Any = FakeHost({K3s: RUNNING})
    assert kubectl.label(None, host, "note", "$(touch x) 'y'")  # type: ignore[arg-type]
    (command,) = host.ran
    assert (
        shlex.split(command)[-1]
        == f"""{KUBECTL} label node gpu-1 --overwrite 'note=$(touch x) '"'"'y'"'"''"""
    )


def test_kubectl_says_why() -> None:
    host: Any = FakeHost({K3s: RUNNING}, answer=lambda script, stdin: (False, "nodes is forbidden"))
    assert not kubectl.label(None, host, "gpu", "on")  # type: ignore[arg-type]
    assert host.said == ["the node cannot be labelled: nodes is forbidden"]


def test_an_agents_node_is_labelled_through_a_server() -> None:
    s1, a1 = lab(1, 1)
    a1.answer = by_word({"hostname | tr": "\n".join(answered({"hostname": "a1"}))})
    assert kubectl.label(None, a1, "gpu", "on")  # type: ignore[arg-type]
    assert s1.scripts()[-1] == f"{KUBECTL} label node a1 --overwrite gpu=on"
    assert not any("label" in script for script in a1.scripts())
    s1.answer = SILENT
    cluster._answered.pop(s1)
    assert not kubectl.label(None, a1, "gpu", "on")  # type: ignore[arg-type]
    assert a1.said == ["the node cannot be labelled: the API of s1 does not answer"]
