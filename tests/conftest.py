"""Files of tests run beside each other (`-n 4 --dist loadfile`): most of their time they wait for machines."""

from __future__ import annotations

import pytest

# The longest first, so that none of them is what everybody waits for in the end.
FIRST = (
    "test_fleet.py",
    "test_proof_faults.py",
    "test_mirror_hostile.py",
    "test_airgap.py",
    "test_there_and_back.py",
    "test_upgrade.py",
    "test_lab_again.py",
    "test_interruption_boundaries.py",
    "test_interruption.py",
    "test_interruption_faults.py",
    "test_library.py",
    "test_proof_survives.py",
    "test_preflight.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))
