"""Upstream's answers for the lock: k3s' channels and sums, helm's sums, NVIDIA's signed index, HAMi's chart, image digests."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urljoin

import yaml

from hami_k3s import chart, releases
from hami_k3s.releases import PACKAGES
from hami_k3s.releases.apt import Index, index
from hami_k3s.releases.fetch import Fetcher, FetchError, beginning
from hami_k3s.releases.lockfile import Binary, Chart, File, Image, Lock, Toolkit
from hami_k3s.releases.origin import resolved
from hami_k3s.releases.reference import Reference
from hami_k3s.releases.registry import Registries
from hami_k3s.settings import Settings

CHART_FILE_MIB = 4


@contextmanager
def _of(setting: str) -> Iterator[None]:
    """What goes wrong inside names this setting."""
    try:
        yield
    except FetchError as error:
        if setting in str(error) or "refused" in str(error):
            raise
        raise FetchError(
            f"{error}\nCheck the route and the proxies to it, or set {setting} to another source: docs/mirrors.md"
        ) from error


@dataclass
class Upstream:
    """What the settings name as sources. Every method raises FetchError with the reason and the setting."""

    settings: Settings
    fetcher: Fetcher
    registries: Registries = field(init=False)

    def __post_init__(self) -> None:
        self.registries = Registries(self.fetcher, resolved(self.settings.k3s_registries))

    @_of("k3s_channel_url")
    def k3s_version(self, wanted: str) -> str:
        """A release from a release, or from a channel's name: "stable", "v1.36"."""
        if re.fullmatch(r"v\d+\.\d+\.\d+\+k3s\d+", wanted):
            return wanted
        body = self.fetcher.text(self.settings.k3s_channel_url)
        try:
            channels = {one["id"]: one.get("latest") for one in json.loads(body)["data"]}
        except (ValueError, KeyError, TypeError) as error:
            raise FetchError(
                f"{self.settings.k3s_channel_url} is not k3s' list of channels; it begins: {beginning(body)} (k3s_channel_url)"
            ) from error
        if not channels.get(wanted):
            known = ", ".join(sorted(name for name, latest in channels.items() if latest))
            raise FetchError(
                f"k3s has no channel {wanted!r}; channels: {known}. Or name a release, like v1.36.2+k3s1"
            )
        return str(channels[wanted])

    def _sum(self, url: str, name: str, setting: str) -> str:
        body = self.fetcher.text(url)
        for line in body.decode(errors="replace").splitlines():
            sha256, _, file = line.partition(" ")
            if file.strip().lstrip("*") == name and re.fullmatch(r"[0-9a-f]{64}", sha256):
                return sha256
        raise FetchError(f"{url} has no sha256 for {name}; it begins: {beginning(body)} ({setting})")

    @_of("k3s_release_url")
    def k3s(self, version: str, architectures: list[str]) -> Binary:
        """The binary and the archive of k3s' own images."""
        base, files, images = self.settings.k3s_release_url, {}, {}
        for arch in architectures:
            url, sums, name = releases.k3s_urls(base, version, arch)
            files[arch] = File(url=url, sha256=self._sum(sums, name, "k3s_release_url"))
            url, name = releases.k3s_images_url(base, version, arch)
            images[arch] = File(url=url, sha256=self._sum(sums, name, "k3s_release_url"))
        return Binary(version=version, files=files, images=images)

    @_of("helm_release_url")
    def helm(self, version: str, architectures: list[str]) -> Binary:
        """helm's archive."""
        files = {}
        for arch in architectures:
            url, sums, name = releases.helm_urls(self.settings.helm_release_url, version, arch)
            files[arch] = File(url=url, sha256=self._sum(sums, name, "helm_release_url"))
        return Binary(version=version, files=files)

    @_of("helm_release_url")
    def helm_newest(self, version: str) -> str:
        """The newest release of the same major."""
        url = f"{self.settings.helm_release_url}/helm{version[1]}-latest-version"
        newest = self.fetcher.text(url, most=1 << 16).decode(errors="replace").strip()
        if not re.fullmatch(r"v\d+\.\d+\.\d+", newest):
            raise FetchError(f"{url} is not a version; it begins: {beginning(newest.encode())}")
        return newest

    @_of("toolkit_repository_url")
    def apt(self, arch: str) -> Index:
        """NVIDIA's index for one architecture, its signature checked against the fingerprint."""
        settings = self.settings
        return index(self.fetcher, settings.toolkit_repository_url, settings.toolkit_key_fingerprint, arch)

    def toolkit(self, version: str, architectures: list[str]) -> Toolkit:
        """The four packages of each architecture."""
        found = {}
        for arch in architectures:
            debs = self.apt(arch).packages
            lacking = [name for name in PACKAGES if (name, f"{version}-1") not in debs]
            if lacking:
                raise FetchError(
                    f"{self.settings.toolkit_repository_url} has no {lacking[0]} {version}-1 for {arch}; "
                    f"newest: {newest(debs)}. The mirror is behind, or the version does not exist"
                )
            found[arch] = {name: debs[name, f"{version}-1"] for name in PACKAGES}
        return Toolkit(version=version, packages=found)

    @_of("hami_chart_repository")
    def charts(self) -> dict[str, dict[str, Any]]:
        """Version -> entry of the chart repository's index."""
        url = f"{self.settings.hami_chart_repository}/index.yaml"
        body = self.fetcher.text(url)
        try:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            entries = yaml.load(body, Loader=loader)["entries"]["hami"]  # noqa: S506  (both are safe loaders)
            return {str(entry["version"]): entry for entry in entries}
        except (yaml.YAMLError, KeyError, TypeError) as error:
            raise FetchError(
                f"{url} is not a chart repository's index; it begins: {beginning(body)} (hami_chart_repository)"
            ) from error

    @_of("hami_chart_repository")
    def chart(self, version: str) -> tuple[Chart, Path]:
        """The chart and its archive, in the cache."""
        repository = self.settings.hami_chart_repository
        if repository.startswith("oci://"):
            reference = Reference.parse(f"{repository.removeprefix('oci://')}/hami:{version}")
            layer = self.registries.manifest(reference)[0]["layers"][0]["digest"]
            archive, sha256 = self.registries.blob(reference, layer), layer.removeprefix("sha256:")
            url = f"{repository}/hami:{version}"
        else:
            entry = self.charts().get(version)
            if entry is None:
                raise FetchError(
                    f"{repository}/index.yaml has no chart hami {version}: never published, or it is behind"
                )
            url = urljoin(f"{repository}/", str(entry["urls"][0]))
            archive, sha256 = self.fetcher.file(url, str(entry.get("digest") or "") or None)
        known = self.settings.hami_chart_sha256 or releases.CHART_SHA256.get(version)
        if known and known != sha256:
            raise FetchError(
                f"sha256 of chart hami {version} from {url} is {sha256}\nexpected {known}: refused. The chart was "
                "published again or changed on the way; set hami_chart_sha256 after you have checked which"
            )
        about = in_chart(archive, "Chart.yaml")
        return Chart(
            version=version, url=url, sha256=sha256, kube_version=str(about.get("kubeVersion", ""))
        ), archive

    @_of("k3s_registries")
    def images(self, names: list[str], architectures: list[str]) -> dict[str, Image]:
        """Digests of these images."""
        return {name: self.registries.resolve(name, architectures) for name in names}


def newest(debs: dict[tuple[str, str], File]) -> str:
    """The newest version of the toolkit that an index has, "none" without any."""
    versions = [
        version for name, version in debs if name == PACKAGES[0] and re.fullmatch(r"[\d.]+-\d+", version)
    ]
    return max(versions, key=releases.numbers, default="none")


def in_chart(archive: Path, name: str) -> dict[str, Any]:
    """A YAML file of a chart's archive, read without unpacking anything. Errors: FetchError."""
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                if member.name == f"hami/{name}" and member.isfile() and member.size <= CHART_FILE_MIB << 20:
                    data = yaml.safe_load(cast("IO[bytes]", tar.extractfile(member)).read())
                    return data if isinstance(data, dict) else {}
                if tar.offset > 64 << 20:
                    break
    except (tarfile.TarError, OSError, EOFError, yaml.YAMLError) as error:
        raise FetchError(f"the chart's archive cannot be read: {error}") from error
    raise FetchError(f"the chart's archive has no hami/{name} among its first 64 MiB")


def images_of(settings: Settings, archive: Path) -> list[str]:
    """Full names of every image that HAMi and verify need. Errors: FetchError."""
    wanted = chart.values(settings, settings.k3s_version, servers=1, nodes=1)
    try:
        whole = chart.merged(in_chart(archive, "values.yaml"), wanted)
        found = chart.images(settings.hami_chart_version, whole)
    except (KeyError, TypeError) as error:
        raise FetchError(
            f"chart {settings.hami_chart_version} with hami_values does not say what its images are: {error!r}"
        ) from error
    return [*found, settings.probe_image]


def lock(upstream: Upstream, architectures: list[str], images: bool, say: Callable[[str], None]) -> Lock:
    """Everything, at the versions of the settings. Errors: FetchError."""
    settings = upstream.settings
    say(f"k3s {settings.k3s_version}")
    k3s = upstream.k3s(settings.k3s_version, architectures)
    say(f"helm {settings.helm_version}")
    helm = upstream.helm(settings.helm_version, architectures)
    say(f"NVIDIA Container Toolkit {settings.toolkit_version}")
    toolkit = upstream.toolkit(settings.toolkit_version, architectures)
    say(f"HAMi {settings.hami_chart_version}")
    hami, archive = upstream.chart(settings.hami_chart_version)
    found = {}
    if images:
        names = images_of(settings, archive)
        say(f"{len(names)} images")
        found = upstream.images(names, architectures)
    return Lock(k3s=k3s, helm=helm, toolkit=toolkit, hami=hami, images=found)
