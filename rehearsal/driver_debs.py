"""NVIDIA's driver as real Debian packages in a signed repository, with the names of its CUDA repository for Debian 12.

The stand-in driver's files are on every node; installing the package that carries the module makes the node show them, at
once or (fault no-driver=reboot) after the next boot.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
from pathlib import Path

from rehearsal import cache, keys

FOLDER = "cuda/repos/debian12/x86_64"
KEY = "3bf863cc.pub"
VERSIONS = ("580.159.04", "610.43.02")
# package -> what it depends on
PACKAGES = {
    "nvidia-open": "nvidia-kernel-open-dkms (= {version}-1), nvidia-driver-cuda (= {version}-1)",
    "nvidia-kernel-open-dkms": "",
    "nvidia-driver-cuda": "",
    "cuda-drivers": "nvidia-driver-cuda (= {version}-1)",
}
POSTINST = """#!/bin/sh
set -e
mkdir -p /var/lib/rehearsal
case "$(cat /etc/rehearsal/node.json)" in
*'no-driver=reboot'*) touch /var/lib/rehearsal/driver-staged ;;
*) touch /var/lib/rehearsal/driver-installed; /usr/lib/rehearsal/node-apply ;;
esac
"""


def _package(scratch: Path, pool: Path, name: str, version: str) -> None:
    tree = scratch / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    needs = PACKAGES[name].format(version=version)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}-1\nArchitecture: amd64\nMaintainer: Rehearsal <root@{keys.MIRROR_NAME}>\n"
        "Section: utils\nPriority: optional\n"
        + (f"Depends: {needs}\n" if needs else "")
        + "Description: stand-in for "
        "NVIDIA's package of this name\n It makes the node's stand-in driver appear.\n"
    )
    if name == "nvidia-kernel-open-dkms":
        (tree / "DEBIAN/postinst").write_text(POSTINST)
        (tree / "DEBIAN/postinst").chmod(0o755)
    dated = dict(os.environ, SOURCE_DATE_EPOCH="1735689600")
    deb = pool / f"{name}_{version}-1_amd64.deb"
    keys.run(["dpkg-deb", "--root-owner-group", "--build", "-Zgzip", str(tree), str(deb)], env=dated)


def _paragraph(deb: Path) -> str:
    content = deb.read_bytes()
    fields = keys.run(["dpkg-deb", "--field", str(deb)]).rstrip("\n")
    digest = hashlib.sha256(content).hexdigest()
    return f"{fields}\nFilename: ./{deb.name}\nSize: {len(content)}\nSHA256: {digest}\n"


def _build(folder: Path) -> None:
    scratch = folder / "scratch"
    for version in VERSIONS:
        for name in PACKAGES:
            _package(scratch, folder, name, version)
    shutil.rmtree(scratch)
    index = "\n".join(_paragraph(deb) for deb in sorted(folder.glob("*.deb"))).encode()
    (folder / "Packages").write_bytes(index)
    (folder / "Packages.xz").write_bytes(lzma.compress(index))
    sums = "".join(
        f" {hashlib.sha256((folder / name).read_bytes()).hexdigest()} {(folder / name).stat().st_size} {name}\n"
        for name in ("Packages", "Packages.xz")
    )
    release, home = folder / "Release", keys.folder() / "right"
    release.write_text(
        f"Origin: {keys.MIRROR_NAME}\nLabel: rehearsal\nDate: Wed, 01 Jan 2025 00:00:00 UTC\nSHA256:\n{sums}"
    )
    keys.gpg(home, "--clearsign", "--digest-algo", "SHA256", "-o", str(folder / "InRelease"), str(release))
    shutil.copy(home / "gpgkey", folder / KEY)


def repository() -> Path:
    """The folder with the packages, the signed index and the key."""
    key = cache.digest(Path(__file__), (keys.folder() / "right" / "gpgkey").read_text())
    return cache.entry("driver-debs", key, _build)
