"""What the mirror serves, under the upstream paths: a folder of links and small files for one rehearsal."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

from rehearsal import binaries, cache, debs, driver_debs, hostile, registry
from rehearsal.standin.build import build_chart, build_k3s

K3S_VERSIONS = ("v1.36.2+k3s1", "v1.35.6+k3s1")
CHANNELS = {"stable": K3S_VERSIONS[0], "v1.36": K3S_VERSIONS[0], "v1.35": K3S_VERSIONS[1]}
IMAGES = "k3s-airgap-images-amd64.tar.zst"
HELM_VERSION = "v4.2.3"
CHARTS = Path(__file__).parent / "standin" / "charts"
DEFAULT_CHART = "2.9.0"


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _helm_archive(folder: Path) -> None:
    archive = folder / f"helm-{HELM_VERSION}-linux-amd64.tar.gz"
    with (
        gzip.GzipFile(str(archive), "wb", compresslevel=1, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        content = binaries.helm().read_bytes()
        member = tarfile.TarInfo("linux-amd64/helm")
        member.size, member.mode = len(content), 0o755
        tar.addfile(member, io.BytesIO(content))
    Path(f"{archive}.sha256sum").write_text(f"{sha256(archive)}  {archive.name}\n")
    Path(f"{archive}.sha256").write_text(f"{sha256(archive)}\n")


def _link(target: Path, sources: Path) -> None:
    target.mkdir(parents=True)
    for source in sorted(sources.iterdir()):
        (target / source.name).symlink_to(source)


def _charts(folder: Path) -> dict[str, str]:
    """Chart archives and their index; returns version -> sha256."""
    folder.mkdir(parents=True)
    versions = sorted(path.name.removeprefix("hami-") for path in CHARTS.glob("hami-*"))
    found = {version: build_chart(version, folder) for version in versions}
    lines = ["apiVersion: v1", "entries:", "  hami:"]
    for version, archive in found.items():
        lines += [
            f"    - name: hami\n      apiVersion: v2\n      version: {version}\n      appVersion: {version}",
            f"      digest: {sha256(archive)}\n      urls: [{archive.name}]",
        ]
    (folder / "index.yaml").write_text("\n".join([*lines, 'generated: "2026-01-01T00:00:00Z"', ""]))
    return {version: sha256(archive) for version, archive in found.items()}


def assemble(folder: Path) -> str:
    """Fills `folder` and returns the sha256 of the default chart's archive.

    `right/` is what the mirror serves; beside it `wrong/` holds the files of the other repository key, and a folder for
    each of `mirror.OTHER_FILES` what a hostile mirror has instead.
    """
    repository = debs.repository()
    right, pool = folder / "right", Path("libnvidia-container/stable/deb/amd64")
    _link(right / pool, repository / "pool")
    for name in ("right", "wrong"):
        (folder / name / pool).mkdir(parents=True, exist_ok=True)
        (folder / name / pool / "InRelease").symlink_to(repository / name / "InRelease")
        (folder / name / "libnvidia-container/gpgkey").symlink_to(repository / name / "gpgkey")
    _link(right / driver_debs.FOLDER, driver_debs.repository())
    for version in K3S_VERSIONS:
        release = right / "k3s-io/k3s/releases/download" / version
        release.mkdir(parents=True)
        build_k3s(version, release / "k3s")
        (release / IMAGES).write_text(f"stand-in for the images of {version}\n")
        (release / "sha256sum-amd64.txt").write_text(
            f"{sha256(release / IMAGES)}  {IMAGES}\n{sha256(release / 'k3s')}  k3s\n"
        )
    channels = [{"id": name, "latest": version} for name, version in CHANNELS.items()]
    (right / "v1-release").mkdir()
    (right / "v1-release/channels").write_text(json.dumps({"data": channels}))
    (right / "helm4-latest-version").write_text(f"{HELM_VERSION}\n")
    registry.assemble(right / "v2")
    for file in sorted(downloads().iterdir()):
        (right / file.name).symlink_to(file)
    charts = _charts(right / "HAMi")
    hostile.assemble(folder, f"helm-{HELM_VERSION}-linux-amd64.tar.gz", K3S_VERSIONS, DEFAULT_CHART)
    return charts[DEFAULT_CHART]


def downloads() -> Path:
    """The folder with helm's archive and its sums; the repository and it are made once and cached."""
    debs.repository()
    helm = binaries.helm()
    return cache.entry("helm", cache.digest(HELM_VERSION, str(helm), helm.stat().st_mtime), _helm_archive)
