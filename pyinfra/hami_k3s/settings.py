"""Every knob, typed and checked before anything connects. `docs/settings.md` is generated from this file."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from hami_k3s import releases
from hami_k3s.releases import lockfile, origin
from hami_k3s.releases.bundle import BundleError

PREFIXES = ("k3s_", "hami_", "toolkit_", "helm_", "verify_", "report_", "reset_", "preflight_", "driver_")

Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s'\"]+[^\s'\"/]$")]
ChartUrl = Annotated[str, StringConstraints(pattern=r"^(https?|oci)://[^\s'\"]+[^\s'\"/]$")]
Proxy = Annotated[str, StringConstraints(pattern=r"^https?://[^\s'\"\\$]+$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# DNS-1123, as Kubernetes wants names
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Image = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-zA-Z0-9._:/@-]*$")]


class SettingsError(ValueError):
    """A setting is unknown or its value cannot work. The message names it, what was given and what is allowed."""


class Settings(BaseModel):
    """The settings of one host. Field order is the order of docs/settings.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mirror: str | None = Field(
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

    toolkit_version: str = Field(
        "1.19.1", description="NVIDIA Container Toolkit, all four packages; 1.18.2 or later"
    )
    toolkit_repository_url: Url = Field(
        "https://nvidia.github.io/libnvidia-container",
        description="apt repository: the key is at URL/gpgkey, the packages under URL/stable/deb/$(ARCH)",
    )
    toolkit_key_fingerprint: str = Field(
        "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
        description="full fingerprint that the repository's key must have",
    )
    toolkit_timeout: int = Field(
        900, ge=10, description="seconds for apt, waiting for another process' dpkg lock included"
    )

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
    k3s_download_timeout: int = Field(900, ge=5, description="seconds for the download of the k3s binary")
    k3s_ready_timeout: int = Field(
        300, ge=5, description="seconds until the API answers and the node is Ready"
    )

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
    driver_key_fingerprint: str | None = Field(
        None, description="full fingerprint of that repository's key; NVIDIA's own if unset"
    )
    driver_timeout: int = Field(
        1800, ge=10, description="seconds for the driver's packages, modules built included"
    )
    driver_reboot_timeout: int = Field(
        600, ge=10, description="seconds until the host answers after a reboot"
    )

    reset_k3s: bool = Field(False, description="reset.py removes k3s itself too, with all its data")

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

    @field_validator(
        "toolkit_repository_url",
        "k3s_release_url",
        "k3s_channel_url",
        "helm_release_url",
        "hami_chart_repository",
        "mirror",
    )
    @classmethod
    def _no_credentials(cls, value: str | None) -> str | None:
        if value and "://" in value and "@" in value.split("/")[2]:
            raise ValueError(
                "credentials in a URL would show in process lists and logs; use a mirror without them"
            )
        return value

    @field_validator("toolkit_key_fingerprint")
    @classmethod
    def _fingerprint(cls, value: str) -> str:
        compact = value.replace(" ", "").upper()
        if not re.fullmatch(r"[0-9A-F]{40}", compact):
            raise ValueError("write the full fingerprint: 40 hexadecimal digits")
        return compact

    @field_validator("driver_key_fingerprint")
    @classmethod
    def _driver_fingerprint(cls, value: str | None) -> str | None:
        return None if value is None else cls._fingerprint(value)

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

    @field_validator("k3s_version")
    @classmethod
    def _k3s(cls, value: str) -> str:
        if not re.fullmatch(r"v\d+\.\d+\.\d+\+k3s\d+", value):
            raise ValueError("write the full release, for example v1.36.2+k3s1")
        if releases.numbers(value) < (1, 28, 5):
            raise ValueError("default-runtime exists from v1.28.5+k3s1 on; set a later release")
        return value

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

    @field_validator("k3s_registries")
    @classmethod
    def _registries(cls, value: dict[str, Any]) -> dict[str, Any]:
        if set(value) - {"mirrors", "configs"} or not all(isinstance(part, dict) for part in value.values()):
            raise ValueError("write `mirrors:` and `configs:`, each a mapping of registry hosts")
        origin.resolved(value)  # raises ValueError for an env:NAME that is not set
        return value

    @field_validator("private_ca")
    @classmethod
    def _pem(cls, value: str | None) -> str | None:
        try:
            if value is not None and "BEGIN CERTIFICATE" not in Path(value).read_text(encoding="ascii"):
                raise ValueError("it holds no certificate in PEM form")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"it cannot be read: {error}") from error
        return value

    @property
    def proxies(self) -> dict[str, str]:
        """`http_proxy`, `https_proxy`, `no_proxy`, those that are set."""
        return {name: value for name in origin.PROXIES if (value := getattr(self, name))}

    def _chart_known(self) -> tuple[str | None, str]:
        if self.hami_chart_sha256 is not None:
            return self.hami_chart_sha256, "hami_chart_sha256"
        where = origin.of(self)
        if where.lock and where.lock.hami:
            return where.lock.hami.sha256, where.judge
        return releases.CHART_SHA256.get(self.hami_chart_version), "known to this project"

    @property
    def chart_judge(self) -> str:
        """Who says what the chart's sum is."""
        return self._chart_known()[1]

    @property
    def chart_sha256(self) -> str:
        """The archive's sum: the setting, else the lock's, else the known one of this version. Errors: SettingsError."""
        known = self._chart_known()[0]
        if known is None:
            raise SettingsError(
                f"hami_chart_sha256: no sum is known for chart {self.hami_chart_version}; set it to the output of "
                f"`helm pull hami --repo {self.hami_chart_repository} --version {self.hami_chart_version} && "
                f"sha256sum hami-{self.hami_chart_version}.tgz`"
            )
        return known


# A problem with one of these is told without the value: it may hold a password.
SECRET = {"k3s_registries", "http_proxy", "https_proxy"}


def is_ours(key: str) -> bool:
    """Is this key of host data a setting, or meant as one?"""
    return key.startswith(PREFIXES) or key in Settings.model_fields


def _locked(settings: Settings) -> list[str]:
    """Versions that are not those of the lock."""
    where = origin.of(settings)
    lock = where.lock
    own, chart = settings.hami_chart_sha256, lock.hami if lock else None
    differs = chart and own and own != chart.sha256 and chart.version == settings.hami_chart_version
    return [
        f"hami_chart_sha256: it is {own}, but {where.judge} says {chart.sha256}; remove the setting, or lock again"
        for chart in [chart]
        if differs and chart
    ] + [
        f"{name}: it is {getattr(settings, name)}, but {where.judge} locks {version}; change the setting, or lock "
        "this version with `python -m hami_k3s.releases lock` (and make the bundle again)"
        for name, version in (lock.versions() if lock else {}).items()
        if getattr(settings, name) != version
    ]


def check(data: Mapping[str, Any]) -> Settings:
    """Settings from host data; keys without one of our prefixes are other people's and ignored.

    Errors: SettingsError with every problem at once, an unknown key with the nearest known name.
    """
    ours = {key: value for key, value in data.items() if is_ours(key)}
    problems = []
    for key in sorted(set(ours) - set(Settings.model_fields)):
        near = difflib.get_close_matches(key, Settings.model_fields, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists the known ones"
        problems.append(f"{key}: unknown setting; {hint}")
        del ours[key]
    try:
        settings = Settings(**origin.with_mirror(ours))
        problems += _locked(settings)
        settings.chart_sha256  # noqa: B018  (raises when no sum is known)
        if not problems:
            return settings
    except ValidationError as error:
        for item in error.errors():
            where = ".".join(str(part) for part in item["loc"])
            given = "" if item["loc"][:1] and item["loc"][0] in SECRET else f" (given: {item['input']!r})"
            problems.append(f"{where}: {item['msg'].removeprefix('Value error, ')}{given}")
    except (SettingsError, lockfile.LockError, BundleError) as error:
        problems.append(str(error))
    raise SettingsError("\n".join(problems))


def markdown() -> str:
    """The text of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Set them in `group_data/all.py`, for a fleet or a host in `fleet.yaml`, or for one run with `--data key=value`.",
        "Generated by `python -m hami_k3s.settings`.",
        "",
        "| setting | default | what it is |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        lines.append(f"| `{name}` | `{default!r}` | {field.description} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
