"""Tests that share booted machines run in one process; the groups run beside each other (`-n 3 --dist loadgroup`)."""

from __future__ import annotations

import pytest

# Fixtures of a whole session: what uses one of them belongs together.
SHARED = ("machines", "node")
# The longest first, so that none of them is what everybody waits for in the end.
FIRST = ("machines", "test_proof_faults.py", "test_mirror_hostile.py", "test_preflight.py")


def _group(item: pytest.Item) -> str:
    names = getattr(item, "fixturenames", ())
    return next((name for name in SHARED if name in names), item.path.name)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: FIRST.index(_group(item)) if _group(item) in FIRST else len(FIRST))
