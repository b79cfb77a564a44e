"""`nvidia-smi --query-gpu` and the kernel module's version file."""

from __future__ import annotations

import re

from hami_k3s.isolation.evidence import Card
from hami_k3s.isolation.parse.errors import ParseError
from hami_k3s.isolation.parse.hami_core import without_hami_core

# Fields that every supported driver knows (nvidia-smi exits 2 on an unknown one).
QUERY_FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "memory.free",
    "mig.mode.current",
    "driver_version",
    "compute_cap",
)
# With its header, so that the parser reads names and not positions.
QUERY = f"nvidia-smi --query-gpu={','.join(QUERY_FIELDS)} --format=csv"

_WHAT = "nvidia-smi --query-gpu"
_UNIT = re.compile(r"\s*\[[^\]]*\]$")


def parse_cards(text: str, fields: tuple[str, ...] | None = None) -> tuple[Card, ...]:
    """The cards of `nvidia-smi --query-gpu=... --format=csv`, with or without header and units.

    + fields: the queried fields, needed only for `noheader` output
    """
    lines = [line.strip() for line in without_hami_core(text).splitlines() if line.strip()]
    if lines and fields is None:
        fields = tuple(_UNIT.sub("", name.strip()) for name in lines.pop(0).split(","))
        if not {"index", "uuid", "memory.total"} <= set(fields):
            raise ParseError(_WHAT, text, "not a table with index, uuid and memory.total")
    return tuple(_card(line, fields or (), text) for line in lines)


def parse_kernel_module(text: str) -> str | None:
    """The version in /proc/driver/nvidia/version, or None when there is none in the text."""
    # "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (...)"
    match = re.search(r"^NVRM version:.*?\s(\d{3,}\.\d+(?:\.\d+)?)\b", text, re.MULTILINE)
    return match.group(1) if match else None


def _card(line: str, fields: tuple[str, ...], text: str) -> Card:
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(fields):
        raise ParseError(_WHAT, text, f"{len(values)} values for {len(fields)} fields in {line!r}")
    row = dict(zip(fields, values, strict=True))
    index, total = _number(row.get("index", "")), _mib(row.get("memory.total", ""))
    if index is None or not row.get("uuid"):
        raise ParseError(_WHAT, text, f"no index or uuid in {line!r}")
    return Card(
        index=index,
        uuid=row["uuid"],
        name=row.get("name", ""),
        # Parts that share the machine's memory report [N/A]; 0 then fails every claim about size, loudly.
        memory_mib=total or 0,
        used_mib=_mib(row.get("memory.used", "")),
        free_mib=_mib(row.get("memory.free", "")),
        mig=row.get("mig.mode.current", "[N/A]"),
        driver=row.get("driver_version", ""),
        compute_cap=row.get("compute_cap", ""),
    )


def _mib(value: str) -> int | None:
    return _number(value.removesuffix("MiB").strip())


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"\d+", value, re.ASCII) else None
