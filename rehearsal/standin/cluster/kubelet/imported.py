"""Images that k3s takes from the archives in its images folder, so that no registry is asked for them."""

import json
import tarfile
from pathlib import Path

from .. import paths

OWN = "k3s-airgap-images-"  # k3s' own archive; its content is not read here
OWN_IMAGES = "docker.io/rancher/"


def has(name: str) -> bool:
    """Is the image in one of the archives? An archive that cannot be read has none, as with the real one."""
    folder = paths.on_node(paths.IMAGES)
    for file in sorted(folder.iterdir()) if folder.is_dir() else []:
        if OWN in file.name and name.startswith(OWN_IMAGES):
            return True
        if file.suffix == ".tar" and name in _names(file):
            return True
    return False


def _names(file: Path) -> list[str]:
    try:
        with tarfile.open(file) as tar:
            content = tar.extractfile("index.json")
            index = json.load(content) if content else {}
        return [entry["annotations"]["io.containerd.image.name"] for entry in index["manifests"]]
    except (tarfile.TarError, OSError, KeyError, ValueError):
        return []
