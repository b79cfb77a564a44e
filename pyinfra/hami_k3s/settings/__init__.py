"""Every knob, typed and checked before anything connects. `docs/settings.md` is generated from these files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from hami_k3s import releases
from hami_k3s.releases import lockfile, origin
from hami_k3s.releases.bundle import BundleError
from hami_k3s.releases.reference import full
from hami_k3s.settings.driver import Driver
from hami_k3s.settings.hami import Hami
from hami_k3s.settings.k3s import K3s
from hami_k3s.settings.sources import Sources
from hami_k3s.settings.toolkit import Toolkit
from hami_k3s.settings.upgrade import Upgrade
from hami_k3s.settings.verify import Verify

PREFIXES = (
    "k3s_", "hami_", "toolkit_", "helm_", "verify_", "report_", "reset_", "preflight_", "driver_", "upgrade_",
)  # fmt: skip


class SettingsError(ValueError):
    """A setting is unknown or its value cannot work. The message names it, what was given and what is allowed."""


# pydantic collects the fields of the last base first.
class Settings(Upgrade, Driver, Verify, Hami, K3s, Toolkit, Sources):
    """The settings of one host. Field order is the order of docs/settings.md."""

    @property
    def proxies(self) -> dict[str, str]:
        """`http_proxy`, `https_proxy`, `no_proxy`, those that are set."""
        return {name: value for name in origin.PROXIES if (value := getattr(self, name))}

    @property
    def probe_image(self) -> str:
        """Full name of the image that verify's pods have."""
        return full(self.verify_image if self.verify_probe == "driver" else self.verify_nvcc_image)

    @property
    def scheduler_image(self) -> str:
        """Full name of kube-scheduler's image, for the version of k3s."""
        tag = releases.scheduler_tag(self.k3s_version)
        return full(f"{self.hami_scheduler_registry}/{self.hami_scheduler_repository}:{tag}")

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
    # The versions of a lock are defaults where it is named; that of a bundle is not.
    named = (
        f". GPU_LOCK={where.judge} takes all its versions" if where.bundle and not lockfile.current() else ""
    )
    differs = chart and own and own != chart.sha256 and chart.version == settings.hami_chart_version
    return (
        [
            f"hami_chart_sha256: it is {own}, but {where.judge} says {chart.sha256}; remove the setting, or lock again"
            for chart in [chart]
            if differs and chart
        ]
        + [
            f"{name}: it is {getattr(settings, name)}, but {where.judge} locks {version}; change the setting, or lock "
            "this version with `python -m hami_k3s.releases lock` (and make the bundle again)" + named
            for name, version in (lock.versions() if lock else {}).items()
            if getattr(settings, name) != version
        ]
        + [
            f"{name}: {image} is not among the images of {where.judge}; name it in the fleet's settings and lock again"
            for name, image in {
                "verify_image"
                if settings.verify_probe == "driver"
                else "verify_nvcc_image": settings.probe_image,
                "hami_scheduler_repository": settings.scheduler_image,
            }.items()
            if lock and lock.images and image not in lock.images
        ]
    )


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
            secret = where.partition(".")[0] in SECRET or (
                "://" in str(item["input"]) and "@" in str(item["input"])
            )
            given = "" if secret else f" (given: {item['input']!r})"
            problems.append(f"{where}: {item['msg'].removeprefix('Value error, ')}{given}")
    except (SettingsError, lockfile.LockError, BundleError) as error:
        problems.append(str(error))
    raise SettingsError("\n".join(problems))
