"""The kinds of values that settings have."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


def no_credentials(value: str) -> str:
    if "://" in value and "@" in value.split("/")[2]:
        raise ValueError(
            "credentials in a URL would show in process lists and logs; use a mirror without them"
        )
    return value


def _fingerprint(value: str) -> str:
    compact = value.replace(" ", "").upper()
    if not re.fullmatch(r"[0-9A-F]{40}", compact):
        raise ValueError("write the full fingerprint: 40 hexadecimal digits")
    return compact


def _address(value: str) -> str:
    """As the API shows a node's address, so that the two can be compared."""
    try:
        plain = str(ip_address(value))
    except ValueError:
        raise ValueError("write an IP address, for example 10.0.0.1") from None
    if "%" in value or value != plain:
        raise ValueError(f"write it as {plain.partition('%')[0]}")
    return value


Url = Annotated[
    str, StringConstraints(pattern=r"^https?://[^\s'\"]+[^\s'\"/]$"), AfterValidator(no_credentials)
]
ChartUrl = Annotated[
    str, StringConstraints(pattern=r"^(https?|oci)://[^\s'\"]+[^\s'\"/]$"), AfterValidator(no_credentials)
]
Proxy = Annotated[str, StringConstraints(pattern=r"^https?://[^\s'\"\\$]+$")]
Fingerprint = Annotated[str, AfterValidator(_fingerprint)]
Address = Annotated[str, AfterValidator(_address)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# DNS-1123, as Kubernetes wants names
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Image = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-zA-Z0-9._:/@-]*$")]


class Part(BaseModel):
    """Some of the settings; `Settings` is made of such parts."""

    # Checked as parts of the whole, never alone: no checker of their own is built.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
