"""Settings of the proof, of the reports and of the preflight."""

from __future__ import annotations

import difflib
from typing import Literal

from pydantic import Field, field_validator

from hami_k3s.settings.kinds import Image, Part


class Verify(Part):
    """`verify_...`, `report_...` and `preflight_...`"""

    verify_probe: Literal["driver", "nvcc"] = Field(
        "driver",
        description="driver: ctypes on libcuda in a small image; nvcc: the lab's program, compiled in the pod",
    )
    verify_image: Image = Field(
        "docker.io/library/python:3.12-slim",
        description="image of the pods with the driver probe (glibc, python3)",
    )
    verify_nvcc_image: Image = Field(
        "docker.io/nvidia/cuda:12.4.1-devel-ubuntu22.04", description="image of the pods with the nvcc probe"
    )
    verify_slice_mib: int | None = Field(
        None, gt=0, description="MiB of each slice; planned from the card if unset"
    )
    verify_overask_mib: int | None = Field(
        None, gt=0, description="MiB of the pod that must not fit beside the slices; planned if unset"
    )
    verify_timeout: int = Field(
        600, ge=5, description="seconds for the two pods to run (image pulls included)"
    )
    verify_pending_timeout: int = Field(
        60, ge=5, description="seconds for the scheduler to say why the third pod cannot fit"
    )
    verify_cards: Literal["all", "first"] | list[str] = Field(
        "all",
        description="which cards are proved: all, first, or a list of UUIDs; the others are listed as not tested",
    )
    verify_durable: bool = Field(
        False,
        description="also prove that all of it holds after a restart of k3s and a daemon-reload, which it does",
    )
    report_folder: str = Field(
        "reports", description="folder for reports and trails, on the control side: one folder a run in it"
    )
    report_language: Literal["en", "zh"] = Field("en", description="language of report.html and report.md")

    preflight_ignore: list[str] = Field(
        default_factory=list, description="codes of docs/troubleshooting.md that shall warn instead of block"
    )
    preflight_disk_gib: int = Field(
        10, ge=1, description="GiB that must be free for images before k3s is there (the nvcc probe adds 12)"
    )
    preflight_lock_timeout: int = Field(
        900,
        ge=0,
        description="seconds to wait for another run on the same host, or for a step that an interrupted one left at work",
    )

    @field_validator("preflight_ignore")
    @classmethod
    def _codes(cls, value: list[str]) -> list[str]:
        from hami_k3s.preflight import CATALOGUE  # it needs this module

        known = [entry.code for entry in CATALOGUE]
        for code in value:
            if code not in known:
                near = difflib.get_close_matches(code, known, 1, 0.4)
                hint = f"; did you mean {near[0]}?" if near else "; docs/troubleshooting.md lists them"
                raise ValueError(f"{code} is not a code of the preflight{hint}")
        return value
