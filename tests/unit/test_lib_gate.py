"""When a run that pyinfra calls a success is none."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s.gate import verdict

HOST = SimpleNamespace(name="gpu-1")


def state(**changes: Any) -> Any:
    whole = {
        "inventory": [HOST],
        "activated_hosts": {HOST.name},
        "active_hosts": {HOST.name},
        "failed_hosts": set(),
        "current_stage": StateStage.Disconnect,
    }
    return SimpleNamespace(**{**whole, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"activated_hosts": set(), "active_hosts": set()}, "left none of: gpu-1"),
        (
            {"activated_hosts": set(), "active_hosts": set(), "failed_hosts": {"gpu-1"}},
            None,
        ),  # pyinfra says so itself
        ({"current_stage": StateStage.Execute}, "interrupted. Run the same command again"),
        ({"current_stage": StateStage.Execute, "active_hosts": set(), "failed_hosts": {"gpu-1"}}, None),
    ],
)
def test_verdict(changes: dict[str, Any], words: str | None) -> None:
    found = verdict(state(**changes))
    assert (found is None) == (words is None)
    assert (words or "") in (found or "")
