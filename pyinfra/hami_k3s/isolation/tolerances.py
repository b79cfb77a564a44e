"""The bands by which the claims judge, each with its reason. One thing has none: the limit in HAMi-core's line is exact."""

from __future__ import annotations

from dataclasses import dataclass

from hami_k3s.isolation import plan
from hami_k3s.isolation.claims import refused, registered, slice_visible


@dataclass(frozen=True)
class Tolerance:
    """`claim` uses `value`; `why` says what the band is for."""

    name: str
    claim: str
    value: str
    why: str


TOLERANCES = (
    Tolerance(
        "limit",
        "refused",
        "0 bytes",
        "The limit in HAMi-core's line is the slice to the byte: it is a setting, nothing rounds it.",
    ),
    Tolerance(
        "context",
        "refused, neighbour",
        f"{refused.CONTEXT_TOLERANCE_MIB} MiB below the slice",
        "The CUDA context is charged to the slice: 260 to 550 MiB were recorded, more on newer cards.",
    ),
    Tolerance(
        "step",
        "refused",
        "one step of the probe",
        "The probe allocates in steps: the refused one crosses the limit by less than its own size.",
    ),
    Tolerance(
        "room",
        "refused",
        f"{refused.ROOM_FACTOR} steps free on the host",
        "With less free, the card itself may have refused.",
    ),
    Tolerance(
        "room beside the slices",
        "refused, neighbour",
        f"{plan.ROOM_MIB} MiB free",
        "Planned beside both full slices, so that no refusal can come from a full card.",
    ),
    Tolerance(
        "registered memory",
        "registered",
        f"{registered.MEMORY_TOLERANCE:.0%}",
        "NVML and nvidia-smi round differently; a wrong card or scaling is off by far more.",
    ),
    Tolerance(
        "visible memory",
        "slice-visible",
        f"{slice_visible.TOLERANCE:.0%}",
        "nvidia-smi shows whole MiB; the whole card is several slices away.",
    ),
)
