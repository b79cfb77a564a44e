"""The files that a hostile mirror puts in place of the right ones, a folder for each of `mirror.OTHER_FILES`."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from rehearsal import cache, debs, registry

BOMB_MIB = 600  # more than a host lets any file of a download grow to
OLD_HELM = b"#!/bin/sh\necho v4.0.0\n"


def _sums(archive: Path) -> None:
    Path(f"{archive}.sha256sum").write_text(
        f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n"
    )


def _zeros(mib: int) -> Iterator[bytes]:
    member = tarfile.TarInfo("linux-amd64/helm")
    member.size, member.mode = mib << 20, 0o755
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    yield packer.compress(member.tobuf(tarfile.GNU_FORMAT))
    for _ in range(mib):
        yield packer.compress(bytes(1 << 20))
    yield packer.compress(bytes(1024)) + packer.flush()


def _helm(folder: Path, name: str) -> None:
    for kind in ("bomb", "rollback"):
        (folder / kind).mkdir()
    with (folder / "bomb" / name).open("wb") as out:
        out.writelines(_zeros(BOMB_MIB))
    with tarfile.open(folder / "rollback" / name, "w:gz") as tar:
        member = tarfile.TarInfo("linux-amd64/helm")
        member.size, member.mode = len(OLD_HELM), 0o755
        tar.addfile(member, io.BytesIO(OLD_HELM))
    for kind in ("bomb", "rollback"):
        _sums(folder / kind / name)


def assemble(folder: Path, helm: str, k3s: tuple[str, str], chart: str) -> None:
    """Fills the folders beside `folder/right`, which is complete.

    + helm: name of helm's archive
    + k3s: today's release and an older one
    + chart: version that is published again, and missing from the stale index
    """
    registry.assemble(folder / "retagged/v2", (f"projecthami/hami:v{chart}",), "changed")
    for kind in ("bomb", "rollback"):
        made = cache.entry("hostile-helm", cache.digest(Path(__file__), helm), lambda new: _helm(new, helm))
        (folder / kind).mkdir()
        for file in (made / kind).iterdir():
            (folder / kind / file.name).symlink_to(file)
    releases = Path("k3s-io/k3s/releases/download")
    (folder / "rollback" / releases).mkdir(parents=True)
    (folder / "rollback" / releases / k3s[0]).symlink_to(folder / "right" / releases / k3s[1])
    pool = folder / "stale-index/libnvidia-container/stable/deb/amd64"
    pool.mkdir(parents=True)
    for name in ("InRelease", "Release", "Packages", "Packages.xz"):
        (pool / name).symlink_to(debs.repository() / "stale" / name)
    index = yaml.safe_load((folder / "right/HAMi/index.yaml").read_text())
    again = folder / "republished/HAMi" / f"hami-{chart}.tgz"
    again.parent.mkdir(parents=True)
    plain = gzip.decompress((folder / "right/HAMi" / again.name).read_bytes())
    again.write_bytes(gzip.compress(plain, 1, mtime=1))
    entries = index["entries"]["hami"]
    for entry in entries:
        if entry["version"] == chart:
            entry["digest"] = hashlib.sha256(again.read_bytes()).hexdigest()
    again.with_name("index.yaml").write_text(yaml.safe_dump(index))
    index["entries"]["hami"] = [entry for entry in entries if entry["version"] != chart]
    (folder / "stale-index/HAMi").mkdir()
    (folder / "stale-index/HAMi/index.yaml").write_text(yaml.safe_dump(index))
