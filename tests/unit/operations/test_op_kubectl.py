"""The label of this host's own node."""

from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.facts.k3s import K3s
from hami_k3s.facts.kubernetes import KUBECTL
from hami_k3s.operations import kubectl
from tests.unit.operations.fake_host import operate
from tests.unit.operations.test_op_cluster import NODE, RUNNING

LABEL = f'{KUBECTL} label node "$(hostname | tr A-Z a-z)" --overwrite'


def label(labels: dict[str, str] | None, key: str = "gpu", value: str = "on") -> tuple[list[Any], str | None]:
    own = None if labels is None else replace(NODE, labels=labels)
    return operate(kubectl.node_label, {K3s: replace(RUNNING, own=own)}, key=key, value=value)


def test_label_that_is_there() -> None:
    assert label({"gpu": "on"}) == ([], "the node is labelled gpu=on")


@pytest.mark.parametrize("labels", [{}, {"gpu": "off"}, None])
def test_label_that_is_missing_or_other_or_unknown(labels: dict[str, str] | None) -> None:
    """When the API did not answer, kubectl will say why."""
    assert label(labels) == ([f"{LABEL} gpu=on"], None)


def test_values_are_data_not_shell() -> None:
    (command,), _ = label({}, "note", "$(touch x) 'y'")
    assert command == f"""{LABEL} 'note=$(touch x) '"'"'y'"'"''"""
