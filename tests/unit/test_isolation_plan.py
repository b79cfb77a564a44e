"""Slices and over-ask: what is chosen, and what is refused because it could not prove anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_k3s.isolation.plan import (
    CONTEXT_MIB,
    MIN_SLICE_MIB,
    MIN_STEPS,
    ROOM_MIB,
    PlanError,
    SlicePlan,
    plan,
)


def proves_something(chosen: SlicePlan) -> None:
    grantable = chosen.total_mib - chosen.granted_mib
    assert chosen.beside_mib == grantable - 2 * chosen.slice_mib
    assert chosen.beside_mib < chosen.overask_mib <= grantable
    assert chosen.slice_mib - CONTEXT_MIB >= MIN_STEPS * chosen.chunk_mib
    assert 2 * chosen.slice_mib + ROOM_MIB <= min(chosen.free_mib, grantable)
    # The probe passes the slice clearly when nothing refuses it, and even then leaves the neighbour's slice alone.
    assert chosen.slice_mib + 2 * chosen.chunk_mib <= chosen.cap_mib <= chosen.free_mib - chosen.slice_mib
    assert chosen.cap_mib % chosen.chunk_mib == 0


@pytest.mark.parametrize(
    ("total", "reserved", "slice_mib", "chunk"),
    [
        (97887, 687, 8000, 256),  # RTX PRO 6000, the lab's sizes
        (143771, 615, 8000, 256),  # H200
        (81559, 600, 8000, 256),  # H100 80 GB
        (49140, 500, 8000, 256),  # A6000, L40S
        (32607, 500, 8000, 256),  # 5090
        (24564, 400, 4000, 256),  # 4090
        (23034, 400, 4000, 256),  # L4
        (16376, 300, 4000, 256),
        (12282, 300, 2000, 128),
        (8188, 200, 2000, 128),
        (6144, 200, 1000, 32),
        (4096, 200, 1000, 32),
    ],
)
def test_sizes_come_from_the_card(total: int, reserved: int, slice_mib: int, chunk: int) -> None:
    chosen = plan(total, total - reserved)
    assert (chosen.slice_mib, chosen.chunk_mib) == (slice_mib, chunk)
    proves_something(chosen)


def test_the_labs_own_sizes_are_accepted() -> None:
    chosen = plan(97887, 97200, 8000, 90000)
    assert (chosen.beside_mib, chosen.overask_mib, chosen.cap_mib) == (81887, 90000, 8704)
    proves_something(chosen)


@settings(deadline=None)
@given(st.integers(4000, 200_000), st.floats(0.95, 1))
def test_every_idle_card_from_4_gb_has_a_plan(total: int, idle: float) -> None:
    proves_something(plan(total, int(total * idle)))


maybe = st.none() | st.integers(1, 200_000)


@settings(deadline=None)
@given(st.integers(1, 200_000), st.integers(0, 200_000), maybe, maybe, st.integers(0, 200_000))
def test_a_plan_proves_something_or_is_refused(
    total: int, free: int, slice_mib: int | None, overask: int | None, granted: int
) -> None:
    try:
        chosen = plan(total, free, slice_mib, overask, granted)
    except PlanError:
        return
    proves_something(chosen)
    assert slice_mib in (None, chosen.slice_mib)
    assert overask in (None, chosen.overask_mib)


def test_a_busy_card_gets_smaller_slices() -> None:
    assert plan(23034, 8000).slice_mib == 2000
    assert plan(97887, 97000, granted_mib=85000).slice_mib == 4000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"slice_mib": 600}, ("600", "too small", f"verify_slice_mib to {MIN_SLICE_MIB} or more")),
        ({"slice_mib": 12000}, ("no clear room", "25024", "22600", "verify_slice_mib to 10788 or less")),
        (
            {"overask_mib": 30000},
            ("30000", "even without the slices", "verify_overask_mib between 15035 and 23034"),
        ),
        (
            {"overask_mib": 15034},
            ("15034", "would be scheduled", "verify_overask_mib between 15035 and 23034"),
        ),
        ({"granted_mib": 22000}, ("22000 are granted to other pods", "nvidia-smi")),
        ({"slice_mib": 2000, "granted_mib": 22000}, ("1034 can be used", "no verify_slice_mib fits")),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_to_set(
    arguments: dict[str, int], words: tuple[str, ...]
) -> None:
    with pytest.raises(PlanError) as caught:
        plan(23034, 22600, **arguments)
    for word in words:
        assert word in str(caught.value)


def test_the_advice_of_a_refusal_works() -> None:
    plan(23034, 22600, slice_mib=MIN_SLICE_MIB)
    plan(23034, 22600, slice_mib=10788)
    plan(23034, 22600, overask_mib=15035)
    plan(23034, 22600, overask_mib=23034)
