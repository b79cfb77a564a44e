"""Settings of NVIDIA's container toolkit."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from hami_k3s import releases
from hami_k3s.settings.kinds import Fingerprint, Part, Url


class Toolkit(Part):
    """`toolkit_...`"""

    toolkit_version: str = Field(
        "1.19.1", description="NVIDIA Container Toolkit, all four packages; 1.18.2 or later"
    )
    toolkit_repository_url: Url = Field(
        "https://nvidia.github.io/libnvidia-container",
        description="apt repository: the key is at URL/gpgkey, the packages under URL/stable/deb/$(ARCH)",
    )
    toolkit_key_fingerprint: Fingerprint = Field(
        "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
        description="full fingerprint that the repository's key must have",
    )
    toolkit_timeout: int = Field(
        900, ge=10, description="seconds for apt, waiting for another process' dpkg lock included"
    )

    @field_validator("toolkit_version")
    @classmethod
    def _toolkit(cls, value: str) -> str:
        numbers = releases.numbers(value.removeprefix("v"))
        if not re.fullmatch(r"\d+\.\d+\.\d+", value):
            raise ValueError('write it as three numbers in quotes, for example "1.19.1"')
        if numbers < (1, 18, 2):
            raise ValueError(
                "1.18.1 and earlier treat NVIDIA_VISIBLE_DEVICES=none as all devices; set 1.18.2 or later"
            )
        return value
