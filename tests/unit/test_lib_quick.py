"""What is replaced in pyinfra gives the same results as pyinfra's own, and nothing is replaced that is not known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api import arguments, facts, util

from hami_k3s import quick

PLACES = (
    (util, "stack"),
    (util, "getframeinfo"),
    (arguments, "all_global_arguments"),
    (facts, "all_global_arguments"),
)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyinfra as it is, whatever other tests have installed; restored afterwards."""
    import inspect

    for module, name in PLACES:
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(util, "stack", inspect.stack)
    monkeypatch.setattr(util, "getframeinfo", inspect.getframeinfo)
    slow = getattr(arguments.all_global_arguments, "__wrapped__", arguments.all_global_arguments)
    for module in (arguments, facts):
        monkeypatch.setattr(module, "all_global_arguments", slow)


def orders() -> tuple[list[Any], list[Any], str]:
    """Order in a deploy file, order in a file that is none, and the caller's place; all from one line of this file."""
    here: Any = SimpleNamespace(current_deploy_filename=__file__, current_op_file_number=3)
    other: Any = SimpleNamespace(current_deploy_filename=None, current_op_file_number=0)
    return (
        util.get_operation_order_from_stack(here),
        util.get_operation_order_from_stack(other),
        util.get_call_location(),
    )


@pytest.mark.usefixtures("fresh")
def test_order_of_operations_and_global_arguments_stay_what_they_are() -> None:
    found = []
    for number in range(2):
        if number:
            quick.install()
        found.append((orders(), arguments.all_global_arguments()))
    assert util.stack is quick.stack
    assert found[0] == found[1]
    assert found[0][0][0], "there are lines of this file"


@pytest.mark.usefixtures("fresh")
def test_a_pyinfra_that_does_it_in_another_way_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs: Any = object()
    monkeypatch.setattr(util, "stack", theirs)
    monkeypatch.delattr(facts, "all_global_arguments")
    before = arguments.all_global_arguments
    quick.install()
    assert util.stack is theirs
    assert arguments.all_global_arguments is before


@pytest.mark.usefixtures("fresh")
def test_twice_is_once() -> None:
    quick.install()
    once = [getattr(module, name) for module, name in PLACES]
    quick.install()
    assert arguments.all_global_arguments() == once[2]()
    assert util.getframeinfo is once[1]
