"""A card's memory as numbers to draw: what each pod got before it was refused, and what the host saw at that moment."""

from __future__ import annotations

from typing import Any

from hami_k3s.isolation.evidence import Evidence, NotMeasuredError, ProbeRun


def picture(evidence: Evidence) -> dict[str, Any] | None:
    """None when nothing was planned. MiB throughout, and per cent of the width for the bars.

    + parts: the card from left to right at the moment when both slices were full
    + pods: for each probe how far it came, on a scale that ends a little past the slice
    + overask: the pod that could not fit beside the slices
    """
    try:
        card = evidence.card()
    except NotMeasuredError:
        return None
    plan = evidence.plan
    if plan is None or not card.memory_mib:
        return None
    first, second = _got(evidence.probe), _got(evidence.neighbour)
    seen = (
        evidence.neighbour
        if evidence.neighbour and evidence.neighbour.host_free_mib is not None
        else evidence.probe
    )
    free = seen.host_free_mib if seen else None
    used = seen.host_used_mib if seen else None
    held = (first or 0) + ((second or 0) if seen is evidence.neighbour else 0)
    parts: list[dict[str, Any]] = []

    def part(kind: str, mib: int | None) -> None:
        if mib and mib > 0:
            parts.append({"kind": kind, "mib": mib, "percent": _percent(mib, card.memory_mib)})

    part("first", first)
    part("second", second if seen is evidence.neighbour else None)
    part("other", used - held if used is not None else None)
    part("free", free)
    end = plan.cap_mib
    wanted = 2 * plan.slice_mib + plan.overask_mib
    pods = [
        {
            "name": run.pod,
            "role": role,
            "allocated_mib": got,
            "slice_mib": plan.slice_mib,
            "refused": bool(run.result and run.result.refused),
            "percent": _percent(got, end),
            "limit_percent": _percent(plan.slice_mib, end),
        }
        for role, run, got in (
            ("first", evidence.probe, first),
            ("second", evidence.neighbour, second),
            ("control", evidence.control, _got(evidence.control)),
        )
        if run is not None and got is not None
    ]
    return {
        "total_mib": card.memory_mib,
        "host_free_mib": free,
        "host_used_mib": used,
        "parts": parts,
        "pods": pods,
        "overask": {
            "mib": plan.overask_mib,
            "beside_mib": plan.beside_mib,
            # On this scale the card ends at `card_percent`: what lies beyond does not fit.
            "percent": _percent(plan.overask_mib, wanted),
            "slice_percent": _percent(plan.slice_mib, wanted),
            "card_percent": _percent(plan.total_mib - plan.granted_mib, wanted),
        },
    }


def _got(run: ProbeRun | None) -> int | None:
    return run.result.allocated_mib if run and run.result and run.result.measured else None


def _percent(part: int, whole: int) -> float:
    return round(max(0.0, min(100.0, 100 * part / whole)), 2)
