"""A bundle of two architectures from an upstream of this test: whole or no bundle, and gone on with where it was cut off."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hami_k3s import releases
from hami_k3s.releases import bundle
from hami_k3s.releases.apt import Index
from hami_k3s.releases.fetch import FetchError
from hami_k3s.releases.lockfile import File, Image, Lock
from hami_k3s.releases.pack import Packer
from hami_k3s.settings import Settings

BOTH = ["amd64", "arm64"]
SETTINGS = Settings()
K3S, HELM, APT = SETTINGS.k3s_release_url, SETTINGS.helm_release_url, SETTINGS.toolkit_repository_url


def digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()


def file(url: str) -> File:
    """Each file's content is its URL."""
    return File(url=url, sha256=digest(url))


def debs(arch: str) -> dict[str, File]:
    return {name: file(f"{APT}/stable/deb/{arch}/{name}.deb") for name in releases.PACKAGES}


LOCK = Lock.model_validate(
    {
        "k3s": {
            "version": SETTINGS.k3s_version,
            "files": {arch: file(releases.k3s_urls(K3S, SETTINGS.k3s_version, arch)[0]) for arch in BOTH},
            "images": {
                arch: file(releases.k3s_images_url(K3S, SETTINGS.k3s_version, arch)[0]) for arch in BOTH
            },
        },
        "helm": {
            "version": SETTINGS.helm_version,
            "files": {arch: file(releases.helm_urls(HELM, SETTINGS.helm_version, arch)[0]) for arch in BOTH},
        },
        "toolkit": {"version": "1.19.1", "packages": {arch: debs(arch) for arch in BOTH}},
        "hami": {"version": "2.9.0", "url": "u", "sha256": digest("chart")},
        "images": {
            "docker.io/a/b:c": Image(
                digest=f"sha256:{'1' * 64}",
                manifests={"amd64": f"sha256:{'2' * 64}", "arm64": f"sha256:{'3' * 64}"},
            )
        },
    }
)


class Upstream:
    """What a Packer asks; `fetched` are the URLs of files, `broken` the one that cannot be had."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.settings = folder, SETTINGS
        self.cache.mkdir()
        self.fetched: list[str] = []
        self.broken = ""
        self.fetcher: Any = SimpleNamespace(file=self.file, text=lambda url: f"sums of {url}".encode())
        self.registries: Any = SimpleNamespace(archive=self.archive)

    def file(self, url: str, sha256: str) -> tuple[Path, str]:
        if url == self.broken:
            raise FetchError("cut off")
        self.fetched.append(url)
        kept = self.cache / sha256
        kept.write_text(url)
        return kept, sha256

    def archive(self, text: str, image: Image, arch: str, out: Path) -> None:
        self.fetched.append(f"{text} {arch}")
        out.write_text(f"{text} {image.digest} {arch}")

    def apt(self, arch: str) -> Index:
        packages = {(name, "1.19.1-1"): deb for name, deb in debs(arch).items()}
        return Index(packages, {"gpgkey": b"key", f"stable/deb/{arch}/InRelease": arch.encode()})

    def chart(self, version: str) -> tuple[Any, Path]:
        kept = self.cache / "chart"
        kept.write_text("chart")
        return SimpleNamespace(sha256=digest("chart")), kept


def make(upstream: Upstream, folder: Path, architectures: list[str], lock: Lock = LOCK) -> None:
    Packer(folder, upstream, lock, lambda text: None).make(architectures, True)  # type: ignore[arg-type]


def test_two_architectures(tmp_path: Path) -> None:
    make(Upstream(tmp_path / "cache"), tmp_path / "b", BOTH)
    found = bundle.load(tmp_path / "b")
    assert found.lock == LOCK
    for arch, name in (("amd64", "k3s"), ("arm64", "k3s-arm64")):
        assert next(path.rsplit("/", 1)[1] for path in found.of("k3s", arch)) == name
        assert len(found.of("images", arch)) == 2
        assert len([path for path in found.of("toolkit", arch) if path.endswith(".deb")]) == len(
            releases.PACKAGES
        )
        assert len(found.of("helm", arch)) == 2
    for name, entry in found.files.items():
        assert hashlib.sha256((tmp_path / "b" / name).read_bytes()).hexdigest() == entry.sha256
    make(Upstream(tmp_path / "again"), tmp_path / "b", ["amd64"])
    less = bundle.load(tmp_path / "b")
    assert not less.of("k3s", "arm64")
    assert not list((tmp_path / "b").rglob("*arm64*deb"))  # what is no part of it is gone


def test_cut_off_and_gone_on_with(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "cache")
    upstream.broken = releases.helm_urls(HELM, SETTINGS.helm_version, "arm64")[0]
    with pytest.raises(FetchError, match="cut off"):
        make(upstream, tmp_path / "b", BOTH)
    with pytest.raises(bundle.BundleError, match="is not a bundle"):
        bundle.load(tmp_path / "b")
    before, upstream.fetched, upstream.broken = list(upstream.fetched), [], ""
    make(upstream, tmp_path / "b", BOTH)
    assert before
    assert not set(before) & set(upstream.fetched)
    bundle.load(tmp_path / "b")


def test_file_that_was_changed_is_fetched_again(tmp_path: Path) -> None:
    make(Upstream(tmp_path / "cache"), tmp_path / "b", ["amd64"])
    archive = next((tmp_path / "b").glob("helm-*.tar.gz"))
    right = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(b"?" * len(right))
    upstream = Upstream(tmp_path / "again")
    make(upstream, tmp_path / "b", ["amd64"])
    assert archive.read_bytes() == right
    assert upstream.fetched == [releases.helm_urls(HELM, SETTINGS.helm_version, "amd64")[0]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"helm": None}, "the lock is not whole"),
        ({"images": {}}, "the lock has no images"),
        ({"k3s": LOCK.k3s.model_copy(update={"version": "v1.31.9+k3s1"})}, "does not find imported images"),  # type: ignore[union-attr]
        ({"toolkit": LOCK.toolkit.model_copy(update={"packages": {}})}, "lock --arch amd64"),  # type: ignore[union-attr]
        ({"hami": LOCK.hami.model_copy(update={"sha256": "0" * 64})}, f"{'0' * 64}: refused"),  # type: ignore[union-attr]
    ],
)
def test_lock_that_is_not_enough(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(FetchError) as told:
        make(Upstream(tmp_path / "cache"), tmp_path / "b", ["amd64"], LOCK.model_copy(update=changes))
    assert words in str(told.value)
    assert not (tmp_path / "b" / bundle.MANIFEST).exists()


def test_manifest_is_plain(tmp_path: Path) -> None:
    make(Upstream(tmp_path / "cache"), tmp_path / "b", ["amd64"])
    manifest = yaml.safe_load((tmp_path / "b" / bundle.MANIFEST).read_text())
    assert set(manifest) == {"format", "files"}
    assert manifest["files"]["HAMi/hami-2.9.0.tgz"] == {"sha256": digest("chart"), "size": 5, "for": "hami"}
