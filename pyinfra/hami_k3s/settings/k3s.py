"""Settings of k3s."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator

from hami_k3s import releases
from hami_k3s.releases import origin
from hami_k3s.settings.kinds import Address, Name, Part, Url


class K3s(Part):
    """`k3s_...`"""

    k3s_version: str = Field("v1.36.2+k3s1", description="k3s release, with its +k3sN")
    k3s_release_url: Url = Field(
        "https://github.com/k3s-io/k3s/releases/download",
        description="the binary is at URL/VERSION/k3s, its sums beside it",
    )
    k3s_channel_url: Url = Field(
        "https://update.k3s.io/v1-release/channels",
        description="where `releases lock --k3s stable` looks a channel's newest release up",
    )
    k3s_registries: dict[str, Any] = Field(
        default_factory=dict,
        description="`mirrors` and `configs` merged into /etc/rancher/k3s/registries.yaml (0600), other entries stay; "
        "a value `env:NAME` is read from the environment of the command",
    )
    k3s_kubeconfig_mode: str = Field(
        "0600", pattern=r"^0?[0-7]{3}$", description="mode of /etc/rancher/k3s/k3s.yaml (the lab uses 644)"
    )
    k3s_download_timeout: int = Field(
        900, ge=5, description="seconds for the download of the k3s binary, and of each image archive"
    )
    k3s_ready_timeout: int = Field(
        300, ge=5, description="seconds until the API answers and the node is Ready"
    )
    k3s_cluster: Name | None = Field(
        None, description="the cluster that this host belongs to; unset: it is one of its own. docs/fleets.md"
    )
    k3s_role: Literal["server", "agent"] = Field("server", description="what this host is in its cluster")
    k3s_node_ip: Address | None = Field(
        None,
        description="address by which the cluster's nodes reach this one; k3s takes that of the default route if unset",
    )
    k3s_gpu: bool | None = Field(
        None,
        description="whether this host has a card to share; unset: a cluster's servers may have one, every other host must",
    )

    @field_validator("k3s_version")
    @classmethod
    def _k3s(cls, value: str) -> str:
        if not re.fullmatch(r"v\d+\.\d+\.\d+\+k3s\d+", value):
            raise ValueError("write the full release, for example v1.36.2+k3s1")
        if releases.numbers(value) < (1, 28, 5):
            raise ValueError("default-runtime exists from v1.28.5+k3s1 on; set a later release")
        return value

    @field_validator("k3s_registries")
    @classmethod
    def _registries(cls, value: dict[str, Any]) -> dict[str, Any]:
        if set(value) - {"mirrors", "configs"} or not all(isinstance(part, dict) for part in value.values()):
            raise ValueError("write `mirrors:` and `configs:`, each a mapping of registry hosts")
        origin.resolved(value)  # raises ValueError for an env:NAME that is not set
        return value
