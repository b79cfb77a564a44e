"""The cards a node can have: name, memory, compute capability and driver, as the real ones report them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """One model of card. Memory figures are MiB.

    `reserved_mib` is what the driver keeps for itself (free < total on an idle card); `context_mib` is what a
    process costs before its first allocation, 518 on the recorded H200 and 550 in the lab's output.
    """

    name: str
    memory_mib: int
    compute_cap: str
    driver: str
    cuda: str
    reserved_mib: int
    context_mib: int
    watts: int
    device_id: str
    bus: int = 5


PROFILES = {
    "rtx-pro-6000": Profile(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        97887,
        "12.0",
        "610.43.02",
        "13.3",
        638,
        550,
        600,
        "0x2bb5",
    ),
    "l4": Profile("NVIDIA L4", 23034, "8.9", "580.159.04", "13.0", 462, 328, 72, "0x27b8", 0),
    "h200": Profile("NVIDIA H200", 143771, "9.0", "580.159.04", "13.0", 615, 518, 700, "0x2335", 6),
    "rtx-4090": Profile(
        "NVIDIA GeForce RTX 4090", 24564, "8.9", "580.159.04", "13.0", 487, 394, 450, "0x2684", 1
    ),
}


def cards(profile: str, count: int, node: str) -> list[dict[str, object]]:
    """The `cards` list of a node's node.json. UUIDs follow from the node's name, so a repeated run sees the same."""
    model = PROFILES[profile]
    found: list[dict[str, object]] = []
    for index in range(count):
        identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{index}.{profile}.{node}.rehearsal")
        found.append(
            {
                "index": index,
                "uuid": f"GPU-{identity}",
                "name": model.name,
                "memory_mib": model.memory_mib,
                "compute_cap": model.compute_cap,
                "mig": "Disabled",
                "bus_id": f"00000000:{model.bus + index:02X}:00.0",
                "cuda": model.cuda,
                "reserved_mib": model.reserved_mib,
                "context_mib": model.context_mib,
                "watts": model.watts,
                "device_id": model.device_id,
            }
        )
    return found
