"""hami.io/vgpu-devices-allocated: what HAMi granted to a pod.

One device is `UUID,NVIDIA,<MiB>,<cores>:`; `;` ends a container, init containers first. A MIG instance's UUID
ends in `[template-index]`, which is kept. `;` alone is a container without a device.
"""

from __future__ import annotations

from collections.abc import Iterable

from hami_k3s.isolation.evidence import Allocation
from hami_k3s.isolation.parse.errors import ParseError

_WHAT = "hami.io/vgpu-devices-allocated"


def parse_allocated(text: str) -> tuple[Allocation, ...]:
    """Every device of the pod, all containers together; an empty text is no device."""
    return tuple(
        _device(entry, text)
        for container in text.strip().split(";")
        for entry in container.split(":")
        if entry.strip()
    )


def format_allocated(containers: Iterable[Iterable[Allocation]]) -> str:
    """The annotation for these containers, as HAMi writes it."""
    return "".join(
        "".join(f"{one.uuid},{one.vendor},{one.memory_mib},{one.cores}:" for one in devices) + ";"
        for devices in containers
    )


def _device(entry: str, text: str) -> Allocation:
    fields = [field.strip() for field in entry.split(",")]
    if len(fields) != 4:
        raise ParseError(_WHAT, text, f"{len(fields)} fields where a device has 4")
    try:
        return Allocation(uuid=fields[0], vendor=fields[1], memory_mib=int(fields[2]), cores=int(fields[3]))
    except ValueError:
        raise ParseError(_WHAT, text, "memory or cores is not a number") from None
