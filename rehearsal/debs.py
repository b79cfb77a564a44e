"""NVIDIA's container toolkit as real Debian packages, in a real signed flat repository."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
from pathlib import Path

from rehearsal import cache, keys

SOURCES = Path(__file__).parent / "standin" / "gpu" / "toolkit"
VERSIONS = ("1.18.1", "1.18.2", "1.19.1")
# package -> (what it depends on beside the C library, its files: path -> source under standin/gpu/toolkit)
PACKAGES: dict[str, tuple[str, dict[str, str]]] = {
    "libnvidia-container1": ("", {"usr/lib/x86_64-linux-gnu/libnvidia-container.so.1": "library"}),
    "libnvidia-container-tools": (
        "libnvidia-container1 (= {version}-1)",
        {"usr/bin/nvidia-container-cli": "nvidia-container-cli"},
    ),
    "nvidia-container-toolkit-base": (
        "",
        {
            "usr/bin/nvidia-container-runtime": "nvidia-container-runtime",
            "usr/bin/nvidia-ctk": "nvidia-ctk",
            "usr/bin/nvidia-cdi-hook": "nvidia-ctk",
        },
    ),
    "nvidia-container-toolkit": (
        "nvidia-container-toolkit-base (= {version}-1), libnvidia-container-tools (= {version}-1)",
        {
            "usr/bin/nvidia-container-runtime-hook": "nvidia-container-runtime-hook",
            "DEBIAN/postinst": "postinst",
        },
    ),
}


def _package(scratch: Path, pool: Path, name: str, version: str) -> None:
    depends, files = PACKAGES[name]
    tree = scratch / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    for path, source in files.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((SOURCES / source).read_text().replace("@VERSION@", version))
        target.chmod(0o755)
    needs = ", ".join(filter(None, ["libc6 (>= 2.17)", depends.format(version=version)]))
    (tree / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: {version}-1\nArchitecture: amd64\nMaintainer: Rehearsal <root@{keys.MIRROR_NAME}>\n"
        f"Section: utils\nPriority: optional\nDepends: {needs}\nDescription: stand-in for NVIDIA's package of this name\n"
        " It plays what the rehearsal needs of it and touches no card.\n"
    )
    dated = dict(os.environ, SOURCE_DATE_EPOCH="1735689600")
    keys.run(["dpkg-deb", "--root-owner-group", "--build", "-Zgzip", str(tree), str(pool / f"{name}_{version}-1_amd64.deb")],
             env=dated)  # fmt: skip


def _paragraph(deb: Path) -> str:
    content = deb.read_bytes()
    return (
        keys.run(["dpkg-deb", "--field", str(deb)]).rstrip("\n")
        + f"\nFilename: ./{deb.name}\nSize: {len(content)}\nMD5sum: {hashlib.md5(content, usedforsecurity=False).hexdigest()}\n"
        f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
    )


def _index(folder: Path, debs: list[Path]) -> Path:
    """Packages, Packages.xz and Release of these debs."""
    index = "\n".join(_paragraph(deb) for deb in debs).encode()
    (folder / "Packages").write_bytes(index)
    (folder / "Packages.xz").write_bytes(lzma.compress(index))
    sums = "".join(
        f" {hashlib.sha256((folder / n).read_bytes()).hexdigest()} {(folder / n).stat().st_size} {n}\n"
        for n in ("Packages", "Packages.xz")
    )
    # Like the real repository: a fixed date, no Valid-Until.
    release = folder / "Release"
    release.write_text(
        f"Origin: {keys.MIRROR_NAME}\nLabel: rehearsal\nDate: Wed, 01 Jan 2025 00:00:00 UTC\nSHA256:\n{sums}"
    )
    return release


def _build(folder: Path) -> None:
    pool, scratch = folder / "pool", folder / "scratch"
    pool.mkdir()
    for version in VERSIONS:
        for name in PACKAGES:
            _package(scratch, pool, name, version)
    shutil.rmtree(scratch)
    stale = folder / "stale"
    stale.mkdir()
    older = [deb for deb in sorted(pool.glob("*.deb")) if f"_{VERSIONS[-1]}-1_" not in deb.name]
    old_release = _index(stale, older)
    keys.gpg(keys.folder() / "right", "--clearsign", "--digest-algo", "SHA256",
             "-o", str(stale / "InRelease"), str(old_release))  # fmt: skip
    release = _index(pool, sorted(pool.glob("*.deb"))).rename(folder / "Release")
    for name in keys.REPOSITORY_KEYS:
        home, signed = keys.folder() / name, folder / name
        signed.mkdir()
        keys.gpg(
            home, "--clearsign", "--digest-algo", "SHA256", "-o", str(signed / "InRelease"), str(release)
        )
        shutil.copy(home / "gpgkey", signed / "gpgkey")


def repository() -> Path:
    """`pool/` (debs, Packages, Packages.xz) and `right/`, `wrong/` with the `InRelease` and `gpgkey` of each key;
    `stale/` has an older index, signed by the right one."""
    key = cache.digest(SOURCES, Path(__file__), (keys.folder() / "right" / "gpgkey").read_text())
    return cache.entry("debs", key, _build)
