"""Archives of container images: what one looks like, and which of them a host gets. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_k3s import releases
from hami_k3s.releases.lockfile import Image
from hami_k3s.releases.reference import Reference

if TYPE_CHECKING:
    from hami_k3s.releases.origin import Origin
    from hami_k3s.settings import Settings


@dataclass(frozen=True)
class Archive:
    """`name`: its path in a bundle. `url`: where a host gets it, "" when it is sent. An image's is judged by its content
    (`index`, a pattern for its index.json; `what`, for messages), k3s' own by its `sha256`."""

    name: str
    url: str
    sha256: str = ""
    index: str = ""
    what: str = ""

    @property
    def identity(self) -> str:
        """A line that is another one when the archive must be another one."""
        return f"{self.sha256 or 'by content'}  {self.name}\n"


def index(text: str, kind: str, digest: str, size: int) -> bytes:
    """The archive's index.json: one image under its name.

    + text: the image's name
    + kind, digest, size: of its index or manifest
    """
    reference = Reference.parse(text)
    names = {
        "io.containerd.image.name": str(reference),
        "org.opencontainers.image.ref.name": reference.tag,
    }
    entry = {"mediaType": kind, "digest": digest, "size": size, "annotations": names}
    return json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()


def index_pattern(text: str, digest: str) -> str:
    """An extended regular expression for what `index` gives for this image and digest, and for nothing else."""
    plain = re.sub(r"([.\[\]{}+])", r"\\\1", index(text, "KIND", digest, 0).decode())
    return plain.replace("KIND", "[a-z0-9./+-]+").replace('"size": 0', '"size": [0-9]+')


def of_image(text: str, image: Image, arch: str, base: str) -> Archive:
    """The archive of one image.

    + base: URL of the folder of a bundle, "" when the archive is sent
    """
    name = releases.image_archive(text, image.digest, arch)
    return Archive(
        name,
        base and f"{base}/{name}",
        index=index_pattern(text, image.digest),
        what=f"{text} {image.digest}",
    )


def wanted(settings: Settings, where: Origin, arch: str) -> list[Archive]:
    """What a host's images folder shall have: with a bundle, and with a mirror that may be one. Empty without a lock."""
    from hami_k3s.releases.origin import in_bundle

    lock, base = where.lock, ""
    if lock is None:
        return []
    if where.bundle is None:
        if not (
            settings.mirror and "://" in settings.mirror and releases.imports_by_digest(settings.k3s_version)
        ):
            return []
        base = settings.mirror.rstrip("/")
    elif not where.bundle.of("images", arch):
        return []  # made with --no-images
    found = [
        of_image(text, image, arch, base) for text, image in lock.images.items() if arch in image.manifests
    ]
    if lock.k3s and arch in lock.k3s.images:
        url, _ = releases.k3s_images_url(settings.k3s_release_url, lock.k3s.version, arch)
        name = in_bundle("k3s_release_url", url, settings.k3s_release_url)
        found.append(Archive(name, base and url, sha256=lock.k3s.images[arch].sha256))
    return found
