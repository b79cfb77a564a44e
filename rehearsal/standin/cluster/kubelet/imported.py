"""Images that k3s takes from the archives in its images folder, so that no registry is asked for them."""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import paths
from ..containerd import parse_version

OWN = "k3s-airgap-images-"  # k3s' own archive; its content is not read here
OWN_IMAGES = "docker.io/rancher/"
# The releases since which k3s names what it imports by its digest, too (k3s#13221).
BY_DIGEST = {32: 11, 33: 7, 34: 3}


def find(name: str, version: str) -> str | None:
    """The digest of the image in one of the archives, "" where it is not read; None when none has it."""
    folder = paths.on_node(paths.IMAGES)
    for file in sorted(folder.iterdir()) if folder.is_dir() else []:
        if OWN in file.name and name.startswith(OWN_IMAGES):
            return ""
        for known, digest in _images(file) if file.suffix == ".tar" else []:
            repository = known.rpartition(":")[0]
            if name == known or (_names_digests(version) and name == f"{repository}@{digest}"):
                return digest
    return None


def _names_digests(version: str) -> bool:
    _, minor, patch = parse_version(version)
    return minor > max(BY_DIGEST) or patch >= BY_DIGEST.get(minor, patch + 1)


def _images(file: Path) -> Iterator[tuple[str, str]]:
    """(name, digest) of what is whole: an archive that cannot be read has none, as with the real one."""
    try:
        with tarfile.open(file) as tar:
            for entry in _json(tar, "index.json")["manifests"]:
                if _whole(tar, entry["digest"]):
                    yield entry["annotations"]["io.containerd.image.name"], entry["digest"]
    except (tarfile.TarError, OSError, KeyError, ValueError):
        return


def _read(tar: tarfile.TarFile, name: str) -> bytes:
    content = tar.extractfile(name)
    return content.read() if content else b""


def _json(tar: tarfile.TarFile, name: str) -> Any:
    return json.loads(_read(tar, name))


def _whole(tar: tarfile.TarFile, digest: str) -> bool:
    """Content is found by its own sum, whatever its name says: down to the layers of this machine's architecture."""
    body = _read(tar, f"blobs/sha256/{digest.removeprefix('sha256:')}")
    if f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
        return False
    try:
        data = json.loads(body)
    except ValueError:
        return True  # a layer
    if "manifests" in data:
        here = [one for one in data["manifests"] if one["platform"]["architecture"] == "amd64"]
        return any(_whole(tar, one["digest"]) for one in here)
    parts = [data["config"], *data["layers"]] if "layers" in data else []
    return all(_whole(tar, one["digest"]) for one in parts)
