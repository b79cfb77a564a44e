"""Makes a bundle from a lock: every file checked against it, laid out like a mirror, `manifest.yaml` last."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import yaml

from hami_k3s import releases
from hami_k3s.releases import lockfile
from hami_k3s.releases.bundle import MANIFEST, Entry
from hami_k3s.releases.fetch import FetchError
from hami_k3s.releases.lockfile import File, Lock
from hami_k3s.releases.origin import LAYOUT
from hami_k3s.releases.resolve import Upstream


class Packer:
    """Fills one folder. A file that is there with the right sum is kept: an interrupted run goes on where it was."""

    def __init__(self, folder: Path, upstream: Upstream, lock: Lock, say: Callable[[str], None]) -> None:
        self.folder, self.upstream, self.lock, self.say = folder, upstream, lock, say
        self.files: dict[str, Entry] = {}

    def make(self, architectures: list[str], images: bool) -> dict[str, Entry]:
        """The whole bundle. Errors: FetchError."""
        lock = self.lock
        if not (lock.k3s and lock.helm and lock.toolkit and lock.hami):
            raise FetchError(
                "the lock is not whole: `python -m hami_k3s.releases lock` writes one with every part"
            )
        if images and not releases.imports_by_digest(lock.k3s.version):
            raise FetchError(
                f"k3s {lock.k3s.version} does not find imported images by their digest: lock v1.32.11, v1.33.7, v1.34.3 "
                "or later, or make the bundle with --no-images"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / MANIFEST).unlink(missing_ok=True)  # without it nobody takes this folder for a bundle
        for arch in architectures:
            self._toolkit(arch)
            self._k3s(arch, images)
            self._helm(arch)
            if images:
                self._images(arch)
        self._chart()
        (self.folder / lockfile.NAME).write_text(lockfile.render(lock), encoding="utf-8")
        self._tidy()
        shown = {
            name: entry.model_dump(by_alias=True, exclude_none=True)
            for name, entry in sorted(self.files.items())
        }
        scratch = self.folder / f"{MANIFEST}.new"
        scratch.write_text(yaml.safe_dump({"format": 1, "files": shown}, width=200), encoding="utf-8")
        scratch.replace(self.folder / MANIFEST)
        return self.files

    def _base(self, setting: str, name: str) -> str:
        return f"{LAYOUT[setting]}/{name}".lstrip("/")

    def _note(self, name: str, part: str, arch: str | None) -> None:
        file = self.folder / name
        file.chmod(0o644)
        with file.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        self.files[name] = Entry.model_validate(
            {"sha256": sha256, "size": file.stat().st_size, "for": part, "arch": arch}
        )

    def _write(self, name: str, body: bytes, part: str, arch: str | None = None) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        self._note(name, part, arch)

    def _fetch(self, name: str, locked: File, url: str, part: str, arch: str | None = None) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or _sha256(file) != locked.sha256:
            self.say(name)
            kept, _ = self.upstream.fetcher.file(url, locked.sha256)
            scratch = file.with_name(f".new-{file.name}")
            scratch.unlink(missing_ok=True)
            try:
                os.link(kept, scratch)
            except OSError:  # another file system
                shutil.copyfile(kept, scratch)
            scratch.replace(file)
        self._note(name, part, arch)

    def _toolkit(self, arch: str) -> None:
        assert self.lock.toolkit is not None
        if arch not in self.lock.toolkit.packages:
            raise FetchError(
                f"the lock has no packages for {arch}: `python -m hami_k3s.releases lock --arch {arch}`"
            )
        index = self.upstream.apt(arch)
        version = f"{self.lock.toolkit.version}-1"
        for package, locked in self.lock.toolkit.packages[arch].items():
            now = index.packages.get((package, version))
            if now is None or now.sha256 != locked.sha256:
                raise FetchError(
                    f"sha256 of {package} {version} in the index is {now.sha256 if now else 'not there'}\n"
                    f"the lock says {locked.sha256}: refused"
                )
            name = now.url.removeprefix(self.upstream.settings.toolkit_repository_url).lstrip("/")
            self._fetch(self._base("toolkit_repository_url", name), locked, now.url, "toolkit", arch)
        for name, body in index.files.items():
            self._write(
                self._base("toolkit_repository_url", name),
                body,
                "toolkit",
                None if name == "gpgkey" else arch,
            )

    def _k3s(self, arch: str, images: bool) -> None:
        part, base = self.lock.k3s, self.upstream.settings.k3s_release_url
        assert part is not None
        url, sums, _ = releases.k3s_urls(base, part.version, arch)
        wanted = [(url, part.files.get(arch), "k3s")]
        archive, _ = releases.k3s_images_url(base, part.version, arch)
        wanted += [(archive, part.images.get(arch), "images")] if images else []
        folder = self._base("k3s_release_url", part.version)
        for one, locked, kind in wanted:
            if locked is None:
                raise FetchError(
                    f"the lock has no k3s for {arch}: `python -m hami_k3s.releases lock --arch {arch}`"
                )
            self._fetch(f"{folder}/{_last(one)}", locked, one, kind, arch)
        self._write(f"{folder}/{_last(sums)}", self.upstream.fetcher.text(sums), "k3s", arch)

    def _helm(self, arch: str) -> None:
        part = self.lock.helm
        assert part is not None
        url, sums, _ = releases.helm_urls(self.upstream.settings.helm_release_url, part.version, arch)
        if arch not in part.files:
            raise FetchError(
                f"the lock has no helm for {arch}: `python -m hami_k3s.releases lock --arch {arch}`"
            )
        self._fetch(_last(url), part.files[arch], url, "helm", arch)
        self._write(_last(sums), self.upstream.fetcher.text(sums), "helm", arch)

    def _chart(self) -> None:
        part = self.lock.hami
        assert part is not None
        chart, archive = self.upstream.chart(part.version)
        if chart.sha256 != part.sha256:
            raise FetchError(
                f"sha256 of chart hami {part.version} is {chart.sha256}\nthe lock says {part.sha256}: refused"
            )
        name = f"hami-{part.version}.tgz"
        self._write(self._base("hami_chart_repository", name), archive.read_bytes(), "hami")
        entry = {
            "name": "hami",
            "apiVersion": "v2",
            "version": part.version,
            "urls": [name],
            "digest": part.sha256,
        }
        index = {"apiVersion": "v1", "entries": {"hami": [entry]}}
        self._write(self._base("hami_chart_repository", "index.yaml"), yaml.safe_dump(index).encode(), "hami")

    def _images(self, arch: str) -> None:
        if not self.lock.images:
            raise FetchError(
                "the lock has no images: write it without --no-images, or make the bundle with --no-images"
            )
        for image, locked in self.lock.images.items():
            if arch not in locked.manifests:
                raise FetchError(
                    f"the lock has no {image} for {arch}: `python -m hami_k3s.releases lock --arch {arch}`"
                )
            # The digest is in the name: an archive that is there is the right one, and writing it is done by renaming.
            name = releases.image_archive(image, locked.digest, arch)
            file = self.folder / name
            if not file.is_file():
                self.say(name)
                file.parent.mkdir(parents=True, exist_ok=True)
                scratch = file.with_name(f".new-{file.name}")
                self.upstream.registries.archive(image, locked, arch, scratch)
                scratch.replace(file)
            self._note(name, "images", arch)

    def _tidy(self) -> None:
        """Files of an earlier bundle that this one does not have."""
        kept = {self.folder / name for name in (*self.files, lockfile.NAME)}
        for top in ("libnvidia-container", "k3s-io", "HAMi", "images"):
            for file in (self.folder / top).rglob("*"):
                if file.is_file() and file not in kept:
                    file.unlink()


def _last(url: str) -> str:
    return unquote(url.rsplit("/", 1)[-1])


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
