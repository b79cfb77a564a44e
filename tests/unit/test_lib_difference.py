"""Documents compared key by key: no row exactly when they are equal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_k3s.difference import leaves
from hami_k3s.operations.helm import _shown

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), DOCUMENTS, max_size=3)


@given(MAPPINGS, MAPPINGS)
def test_no_row_exactly_when_they_are_equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    same = json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)
    assert (list(leaves(found, wanted)) == []) is same


@pytest.mark.parametrize(
    ("found", "wanted", "rows"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, [("a.b", 1, 3)]),
        ({"a": {"b": 1}}, {}, [("a", {"b": 1}, None)]),
        ({}, {"a": {}}, [("a", None, {})]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a", [1, 2], [1, 3])]),
        ({"a": {"b": 1}}, {"a": "b"}, [("a", {"b": 1}, "b")]),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
    ],
)
def test_rows(found: Any, wanted: Any, rows: list[Any]) -> None:
    assert list(leaves(found, wanted)) == rows


def test_a_value_called_a_secret_is_not_shown() -> None:
    assert _shown("scheduler.certToken", "hunter2") == "(not shown)"
    assert _shown("devicePlugin.deviceSplitCount", 7) == "7"
