"""The sizes of the proof, from the card: two equal slices, an over-ask, and how the probe fills a slice.

A size that cannot prove anything is refused, with the reason, rather than measured: a slice smaller than
the CUDA context, slices that fill the card (a refusal could then come from the card), an over-ask that fits
beside the slices (it would be scheduled) or that no empty card could hold (Pending would prove nothing).
"""

from __future__ import annotations

from dataclasses import dataclass

# A CUDA context is charged to the slice: 260 MiB (RTX A6000) to 550 MiB (RTX PRO 6000) were recorded.
CONTEXT_MIB = 640
# What the card must have free beside both full slices, so that a refusal cannot come from the card itself.
ROOM_MIB = 1024
# The probe should take at least so many steps inside a slice, or "refused near the limit" says little.
MIN_STEPS = 8
CHUNKS_MIB = (256, 128, 64, 32)
# The lab's 8000 MiB for 48 GB cards and larger, its 4000 for 24 GB, then halves for small cards.
SLICES_MIB = (8000, 4000, 2000, 1000)
MIN_SLICE_MIB = CONTEXT_MIB + MIN_STEPS * CHUNKS_MIB[-1]


class PlanError(ValueError):
    """These sizes cannot prove anything on this card; the message says why and which setting to change."""


@dataclass(frozen=True)
class SlicePlan:
    """Sizes in MiB: beside < overask <= total - granted.

    `beside_mib` is what HAMi can still grant while both slices are held.
    """

    total_mib: int  # registered with HAMi
    free_mib: int  # free on the host before anything starts
    granted_mib: int  # granted by HAMi to other people's pods
    slice_mib: int
    overask_mib: int
    beside_mib: int
    chunk_mib: int
    cap_mib: int  # the probe stops here when nothing refuses it


def chunk_for(slice_mib: int) -> int | None:
    """The largest chunk that still gives MIN_STEPS steps in this slice, or None: the slice is too small."""
    room = slice_mib - CONTEXT_MIB
    return next((chunk for chunk in CHUNKS_MIB if room >= MIN_STEPS * chunk), None)


def plan(
    total_mib: int,
    free_mib: int,
    slice_mib: int | None = None,
    overask_mib: int | None = None,
    granted_mib: int = 0,
) -> SlicePlan:
    """Sizes for one card, or PlanError.

    + total_mib: the card's memory as HAMi registered it
    + free_mib: what the host's nvidia-smi reports free now
    + slice_mib: the user's `verify_slice_mib`, None to choose
    + overask_mib: the user's `verify_overask_mib`, None to choose
    + granted_mib: what HAMi has granted to other pods on this card
    """
    grantable = total_mib - granted_mib
    usable = min(grantable, free_mib)
    if slice_mib is None:
        slice_mib = _choose_slice(total_mib, usable, free_mib, granted_mib)
    chunk = _check_slice(slice_mib, usable, free_mib, granted_mib)
    beside = grantable - 2 * slice_mib
    if overask_mib is None:
        overask_mib = _round_down(grantable - slice_mib)  # half-way between "beside" and "grantable"
    _check_overask(overask_mib, slice_mib, grantable, granted_mib, beside)
    # Past the slice by two chunks: enough to see that nothing refused, and the neighbour keeps its slice.
    cap = -(-slice_mib // chunk) * chunk + 2 * chunk
    return SlicePlan(total_mib, free_mib, granted_mib, slice_mib, overask_mib, beside, chunk, cap)


def _choose_slice(total: int, usable: int, free: int, granted: int) -> int:
    for size in (*SLICES_MIB, MIN_SLICE_MIB):
        # At most a quarter of the card each, so that "a slice, not the card" is plain to see.
        if size * 4 <= total and size * 2 + ROOM_MIB <= usable:
            return size
    raise PlanError(
        f"the card cannot hold two slices: of {total} MiB {free} are free and {granted} are granted to other "
        f"pods. Two slices of {MIN_SLICE_MIB} MiB with {ROOM_MIB} MiB beside them need "
        f"{2 * MIN_SLICE_MIB + ROOM_MIB} MiB free on a card of {4 * MIN_SLICE_MIB} MiB or more. "
        "Stop what uses the card (nvidia-smi shows it), or set verify_slice_mib."
    )


def _check_slice(size: int, usable: int, free: int, granted: int) -> int:
    chunk = chunk_for(size)
    if chunk is None:
        raise PlanError(
            f"a slice of {size} MiB is too small to prove anything: the CUDA context takes up to "
            f"{CONTEXT_MIB} MiB of it and the probe needs room beside that. "
            f"Set verify_slice_mib to {MIN_SLICE_MIB} or more."
        )
    if size * 2 + ROOM_MIB > usable:
        largest = (usable - ROOM_MIB) // 2
        advice = (
            f"Set verify_slice_mib to {largest} or less, or leave it out."
            if largest >= MIN_SLICE_MIB
            else "Stop what uses the card (nvidia-smi shows it): no verify_slice_mib fits."
        )
        raise PlanError(
            f"two slices of {size} MiB leave no clear room on the card: with {ROOM_MIB} MiB beside them they "
            f"need {size * 2 + ROOM_MIB} MiB, and {usable} can be used ({free} free on the card, {granted} "
            f"granted to other pods). A refusal could then come from a full card. {advice}"
        )
    return chunk


def _check_overask(overask: int, size: int, grantable: int, granted: int, beside: int) -> None:
    others = f" ({granted} MiB are granted to other pods)" if granted else ""
    advice = f"Set verify_overask_mib between {beside + 1} and {grantable}, or leave it out."
    if overask > grantable:
        raise PlanError(
            f"an over-ask of {overask} MiB would stay Pending even without the slices: the card can grant "
            f"{grantable} MiB{others}. {advice}"
        )
    if overask <= beside:
        raise PlanError(
            f"an over-ask of {overask} MiB fits beside two slices of {size} MiB and would be scheduled: "
            f"{beside} MiB are left beside them{others}. {advice}"
        )


def _round_down(mib: int, step: int = 100) -> int:
    return mib - mib % step
