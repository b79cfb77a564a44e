"""Where a host's files come from, and who says what they must be. Pure but for reading lock and bundle."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hami_k3s.releases import lockfile
from hami_k3s.releases.bundle import Bundle, load
from hami_k3s.releases.lockfile import Lock

if TYPE_CHECKING:
    from hami_k3s.settings import Settings

STORE = "/var/lib/hami-k3s/bundle"
# The folders of a mirror or bundle, by the setting that names the source. docs/mirrors.md describes them.
LAYOUT = {
    "toolkit_repository_url": "libnvidia-container",
    "driver_repository_url": "cuda/repos",  # no part of a bundle; docs/mirrors.md
    "k3s_release_url": "k3s-io/k3s/releases/download",
    "helm_release_url": "",
    "hami_chart_repository": "HAMi",
}
# Public mirrors; each is a default that the setting of that name replaces.
PRESETS: dict[str, dict[str, str]] = {
    "cn": {
        "toolkit_repository_url": "https://mirrors.ustc.edu.cn/libnvidia-container",
        "k3s_release_url": "https://rancher-mirror.rancher.cn/k3s",
        "hami_scheduler_registry": "registry.cn-hangzhou.aliyuncs.com",
        "hami_scheduler_repository": "google_containers/kube-scheduler",
    }
}
# Addresses inside the cluster, and of machines that have none of the internet's.
INSIDE = (
    "localhost",
    "127.0.0.0/8",
    "10.0.0.0/8",  # k3s' own ranges are 10.42.0.0/16 and 10.43.0.0/16
    "172.16.0.0/12",
    "192.168.0.0/16",
    ".svc",
    ".cluster.local",
)
PROXIES = ("http_proxy", "https_proxy", "no_proxy")


def with_mirror(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with the sources that `mirror` names where no setting names another."""
    mirror = data.get("mirror")
    if not isinstance(mirror, str):
        return dict(data)
    if "://" in mirror:
        base = mirror.rstrip("/")
        defaults = {setting: f"{base}/{folder}".rstrip("/") for setting, folder in LAYOUT.items()}
    else:
        defaults = PRESETS.get(mirror, {})
    return {**defaults, **data}


def resolved(value: Any) -> Any:
    """The setting with every `env:NAME` read from the environment. Errors: ValueError when one is not set."""
    if isinstance(value, dict):
        return {key: resolved(one) for key, one in value.items()}
    if isinstance(value, list):
        return [resolved(one) for one in value]
    if isinstance(value, str) and value.startswith("env:"):
        if (found := os.environ.get(value.removeprefix("env:"))) is None:
            raise ValueError(f"{value} is not set in the environment of this command")
        return found
    return value


def cluster_environment(proxies: Mapping[str, str]) -> str:
    """The lines of an EnvironmentFile= that give k3s, and with it containerd, the proxies."""
    if not proxies.get("http_proxy") and not proxies.get("https_proxy"):
        return ""
    own = [part.strip() for part in proxies.get("no_proxy", "").split(",") if part.strip()]
    values = {**proxies, "no_proxy": ",".join(dict.fromkeys([*own, *INSIDE]))}
    return "".join(f'{name.upper()}="{values[name]}"\n' for name in PROXIES if values.get(name))


def prelude(proxies: Mapping[str, str]) -> str:
    """Shell lines that give the proxies to one script; such a script is 0600 on a host, and argv has none of it."""
    return "".join(
        f"export {name}={shlex.quote(value)} {name.upper()}={shlex.quote(value)}\n"
        for name, value in proxies.items()
        if value
    )


@dataclass(frozen=True)
class Origin:
    """Of one host. `judge`: how messages name the file that holds the sums."""

    lock: Lock | None = None
    judge: str = lockfile.NAME
    bundle: Bundle | None = None
    prelude: str = field(default="", repr=False)  # proxies may hold credentials

    def sha256(self, tool: str, arch: str) -> str | None:
        """The locked sum of k3s or helm: "" when nothing locks it, None when the lock has none for this architecture."""
        part = self.lock.binary(tool) if self.lock else None
        if part is None:
            return ""
        return part.files[arch].sha256 if arch in part.files else None

    def image(self, name: str) -> str:
        """The image by its locked digest, or by its tag when nothing locks it.

        + name: full, with its tag
        """
        digest = self.lock.digests.get(name) if self.lock else None
        return f"{name}@{digest}" if digest else name

    def debs(self, arch: str) -> dict[str, str] | None:
        """Package -> locked sum; empty when nothing locks them, None when the lock has none for this architecture."""
        if self.lock is None or self.lock.toolkit is None:
            return {}
        found = self.lock.toolkit.packages.get(arch)
        return None if found is None else {name: file.sha256 for name, file in found.items()}


def in_bundle(setting: str, url: str, base: str) -> str:
    """Where a bundle holds the file of this URL under that setting's base."""
    return f"{LAYOUT[setting]}/{unquote(url.removeprefix(base).lstrip('/'))}".lstrip("/")


def of(settings: Settings) -> Origin:
    """The origin of a host's files. Errors: LockError, BundleError."""
    lock, judge = lockfile.current(), str(lockfile.path())
    bundle = load(Path(settings.bundle).resolve()) if settings.source == "bundle" else None
    if bundle is not None and lock is None:
        lock, judge = bundle.lock, str(bundle.folder / lockfile.NAME)
    # A host that gets everything over SSH needs no proxy for it.
    return Origin(lock, judge, bundle, "" if bundle else prelude(settings.proxies))


def toolkit_url(settings: Settings) -> str:
    """The repository as a host's apt is to see it."""
    if settings.source == "bundle":
        return f"file://{STORE}/{LAYOUT['toolkit_repository_url']}"
    return settings.toolkit_repository_url
