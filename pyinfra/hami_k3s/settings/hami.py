"""Settings of helm and of what it installs, HAMi."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator

from hami_k3s import releases
from hami_k3s.settings.kinds import ChartUrl, Image, Name, Part, Sha256, Url


class Hami(Part):
    """`helm_...` and `hami_...`"""

    helm_version: str = Field("v4.2.3", description="helm release; a v3 release works too")
    helm_release_url: Url = Field(
        "https://get.helm.sh",
        description="the archive is at URL/helm-VERSION-linux-ARCH.tar.gz, its .sha256sum beside it",
    )
    helm_download_timeout: int = Field(300, ge=5, description="seconds for the download of helm")

    hami_chart_version: str = Field("2.9.0", description="version of HAMi's chart")
    hami_chart_repository: ChartUrl = Field(
        "https://project-hami.github.io/HAMi",
        description="chart repository (its index.yaml is at URL/index.yaml), or oci://HOST/FOLDER with the chart hami",
    )
    hami_chart_sha256: Sha256 | None = Field(
        None, description="sha256 of the chart archive; known for the default version, needed for others"
    )
    hami_release: Name = Field("hami", description="name of the Helm release")
    hami_namespace: Name = Field("kube-system", description="namespace of the Helm release")
    hami_scheduler_registry: Image = Field(
        "registry.k8s.io", description="registry of the kube-scheduler image"
    )
    hami_scheduler_repository: Image = Field(
        "kube-scheduler", description="repository of the kube-scheduler image in that registry"
    )
    hami_values: dict[str, Any] = Field(
        default_factory=dict, description="chart values merged over the ones this project sets"
    )
    hami_ready_timeout: int = Field(
        300, ge=5, description="seconds for helm, and again for registration and webhook afterwards"
    )

    @field_validator("helm_version")
    @classmethod
    def _helm(cls, value: str) -> str:
        if not re.fullmatch(r"v[34]\.\d+\.\d+", value):
            raise ValueError("write a release of helm 3 or 4, for example v4.2.3")
        return value

    @field_validator("hami_chart_version")
    @classmethod
    def _chart(cls, value: str) -> str:
        releases.scheduler_tag_path(value)  # raises ValueError for a chart whose key nobody knows
        return value
