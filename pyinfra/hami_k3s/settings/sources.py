"""Settings that say from where everything comes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from hami_k3s.settings.kinds import Part, Proxy, no_credentials


class Sources(Part):
    """Settings without a prefix: the same for every source."""

    mirror: Annotated[str, AfterValidator(no_credentials)] | None = Field(
        None,
        pattern=r"^(cn|https?://[^\s'\"]+)$",
        description="sources that are not set by themselves: `cn` (public mirrors), or the URL of a bundle's folder; "
        "docs/mirrors.md",
    )
    source: Literal["internet", "bundle"] = Field(
        "internet", description="bundle: everything goes to the hosts over SSH, docs/air-gap.md"
    )
    bundle: str = Field(
        "bundle", description="folder made by `python -m hami_k3s.releases bundle`, on the control side"
    )
    http_proxy: Proxy | None = Field(
        None, description="proxy for http URLs: apt, downloads, k3s and containerd, nothing else on the host"
    )
    https_proxy: Proxy | None = Field(None, description="proxy for https URLs, as http_proxy")
    no_proxy: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9.:/*_,\[\] -]*$",
        description="hosts reached without the proxy; the cluster's own ranges are added for k3s",
    )
    private_ca: str | None = Field(
        None,
        description="PEM file on the control side: further authorities that apt, downloads, helm and containerd trust",
    )

    @field_validator("private_ca")
    @classmethod
    def _pem(cls, value: str | None) -> str | None:
        try:
            if value is not None and "BEGIN CERTIFICATE" not in Path(value).read_text(encoding="ascii"):
                raise ValueError("it holds no certificate in PEM form")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"it cannot be read: {error}") from error
        return value
