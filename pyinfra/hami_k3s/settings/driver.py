"""Settings of NVIDIA's driver, and of the way back."""

from __future__ import annotations

from pydantic import Field

from hami_k3s.settings.kinds import Fingerprint, Part, Url


class Driver(Part):
    """`driver_...` and `reset_...`"""

    driver_install: bool = Field(
        False,
        description="install NVIDIA's driver where a card has none; a loaded driver of the branch stays",
    )
    driver_reboot: bool = Field(
        False, description="reboot when the driver needs it; else the host stops and says so"
    )
    driver_branch: str = Field(
        "580", pattern=r"^\d{3}$", description="driver branch to install and to stay on"
    )
    driver_repository_url: Url = Field(
        "https://developer.download.nvidia.com/compute/cuda/repos",
        description="NVIDIA's CUDA repositories; the packages are under URL/debian12/x86_64 and the like",
    )
    driver_key_fingerprint: Fingerprint | None = Field(
        None, description="full fingerprint of that repository's key; NVIDIA's own if unset"
    )
    driver_timeout: int = Field(
        1800, ge=10, description="seconds for the driver's packages, modules built included"
    )
    driver_reboot_timeout: int = Field(
        600, ge=10, description="seconds until the host answers after a reboot"
    )

    reset_k3s: bool = Field(False, description="reset.py removes k3s and helm too, with all of k3s' data")
    reset_toolkit: bool = Field(
        False,
        description="reset.py removes the toolkit's packages, NVIDIA's repository and the private CA too",
    )
    reset_force: bool = Field(
        False, description="reset.py goes on where GPU pods run, and ends them; without it they are named"
    )
