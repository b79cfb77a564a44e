"""`releases.lock.yaml`: version, URL and sha256 of everything that is installed. Read here, written by `lock`."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

NAME = "releases.lock.yaml"
Sum = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
# setting -> part of the lock that says its version
VERSIONS = {
    "toolkit_version": "toolkit",
    "k3s_version": "k3s",
    "helm_version": "helm",
    "hami_chart_version": "hami",
}


class LockError(ValueError):
    """The lock cannot be used; the message names the file and what to do."""


class _Part(BaseModel):
    # Most runs have no lock: the checker is built when there is one.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class File(_Part):
    """One file: where it was found and its sha256."""

    url: str
    sha256: Sum


class Binary(_Part):
    """k3s or helm, a file per architecture; `images`: the images that the release itself needs, as one archive."""

    version: str
    files: dict[str, File]
    images: dict[str, File] = Field(default_factory=dict)


class Toolkit(_Part):
    """NVIDIA's packages: architecture -> package -> deb."""

    version: str
    packages: dict[str, dict[str, File]]


class Chart(_Part):
    """HAMi's chart; `kube_version` is its own condition on the cluster's version."""

    version: str
    url: str
    sha256: Sum
    kube_version: str = ""


class Image(_Part):
    """An image: the digest its tag had, and the manifest of each architecture."""

    digest: Digest
    manifests: dict[str, Digest]


class Lock(_Part):
    """The whole file; a part that is not there is not locked."""

    format: Literal[1] = 1
    k3s: Binary | None = None
    helm: Binary | None = None
    toolkit: Toolkit | None = None
    hami: Chart | None = None
    images: dict[str, Image] = Field(default_factory=dict)

    def versions(self) -> dict[str, str]:
        """Setting -> locked version."""
        found = {setting: getattr(self, part) for setting, part in VERSIONS.items()}
        return {setting: part.version for setting, part in found.items() if part is not None}

    @property
    def digests(self) -> dict[str, str]:
        """Full name of an image -> digest."""
        return {name: image.digest for name, image in self.images.items()}

    def binary(self, tool: str) -> Binary | None:
        """The part of "k3s" or "helm"."""
        found = getattr(self, tool)
        return found if isinstance(found, Binary) else None


def path() -> Path:
    """GPU_LOCK, else releases.lock.yaml of the present folder."""
    return Path(os.environ.get("GPU_LOCK", "").strip() or NAME)


def parse(text: str, where: str) -> Lock:
    """A lock from its text. Errors: LockError."""
    try:
        return Lock.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        raise LockError(f"{where} is not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise LockError(
            f"{where}: {place}: {first['msg']}; write it anew with `python -m hami_k3s.releases lock`"
        ) from error


def render(lock: Lock) -> str:
    """The text of the file; the same lock gives the same bytes."""
    head = "# Written by `python -m hami_k3s.releases lock`. What is installed, and the sum each file must have.\n"
    return head + yaml.safe_dump(
        lock.model_dump(exclude_defaults=True) | {"format": 1}, sort_keys=True, width=200
    )


@cache
def _read(file: Path, stamp: tuple[int, int]) -> Lock:
    return parse(file.read_text(encoding="utf-8"), str(file))


def current() -> Lock | None:
    """The lock in use, None without one. Errors: LockError."""
    file = path()
    try:
        status = file.stat()
        return _read(file, (status.st_mtime_ns, status.st_size))
    except FileNotFoundError:
        if os.environ.get("GPU_LOCK", "").strip():
            raise LockError(f"GPU_LOCK names {file}, which is not there") from None
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"{file} cannot be read: {error}") from error


def pinned(setting: str, default: str) -> str:
    """The locked version of a setting, or the default. For group_data/all.py."""
    try:
        lock = current()
    except LockError:
        lock = None  # the check of the settings reports it, with its reason
    return lock.versions().get(setting, default) if lock else default
