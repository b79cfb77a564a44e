"""A bundle: one folder with every file a node needs, laid out like a mirror, and `manifest.yaml` with the sums."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hami_k3s.releases import lockfile
from hami_k3s.releases.lockfile import Lock, Sum

MANIFEST = "manifest.yaml"


class BundleError(ValueError):
    """The folder is not a bundle that can be used; the message says why and what to do."""


class Entry(BaseModel):
    """One file. `for`: "toolkit", "k3s", "helm", "hami" or "images"; `arch` is unset for a file of every architecture."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    sha256: Sum
    size: int = Field(ge=0)
    part: Literal["toolkit", "k3s", "helm", "hami", "images"] = Field(alias="for")
    arch: str | None = None


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    format: Literal[1]
    files: dict[str, Entry]


@dataclass(frozen=True)
class Bundle:
    """A checked bundle: the files are there with their sizes; their sums are checked where they arrive."""

    folder: Path
    files: dict[str, Entry]
    lock: Lock

    def of(self, part: str, arch: str) -> list[str]:
        """Paths of one part for one architecture."""
        return [
            path for path, entry in self.files.items() if entry.part == part and entry.arch in (None, arch)
        ]


def inside(folder: Path, name: str) -> Path:
    """The file of that name in the folder. Errors: BundleError for a name or a link that leads out of it."""
    pure = PurePosixPath(name)
    plain = name and not pure.is_absolute() and ".." not in pure.parts and name == str(pure)
    if not plain or any(ord(letter) < 32 for letter in name) or "\\" in name:
        raise BundleError(f"{folder / MANIFEST} names {name!r}, which leads out of the bundle: refused")
    root = folder.resolve()
    file = root / pure
    if not Path(os.path.realpath(file)).is_relative_to(root):
        raise BundleError(f"{file} is a link that leads out of the bundle: refused")
    return file


def load(folder: Path) -> Bundle:
    """The bundle in a folder. Errors: BundleError."""
    try:
        stamp = (folder / MANIFEST).stat().st_mtime_ns
    except OSError as error:
        raise BundleError(
            f"{folder} is not a bundle ({MANIFEST}: {error.strerror}); "
            "make one with `python -m hami_k3s.releases bundle DIR` and name it with the setting bundle"
        ) from error
    return _load(folder, stamp)


@cache
def _load(folder: Path, stamp: int) -> Bundle:
    try:
        manifest = _Manifest.model_validate(yaml.safe_load((folder / MANIFEST).read_text(encoding="utf-8")))
        lock = lockfile.parse(
            (folder / lockfile.NAME).read_text(encoding="utf-8"), str(folder / lockfile.NAME)
        )
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BundleError(f"{folder / MANIFEST} is not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BundleError(f"{folder / MANIFEST}: {place}: {first['msg']}") from error
    except OSError as error:
        raise BundleError(
            f"{error.filename}: {error.strerror}; the bundle is not whole, make it again"
        ) from error
    except lockfile.LockError as error:
        raise BundleError(str(error)) from error
    for name, entry in manifest.files.items():
        file = inside(folder, name)
        size = file.stat().st_size if file.is_file() else None
        if size != entry.size:
            seen = "not there" if size is None else f"{size} bytes"
            raise BundleError(
                f"{file} is {seen}, {MANIFEST} says {entry.size} bytes: copied incompletely or changed. "
                "Copy the bundle again, or make it again"
            )
    return Bundle(folder, manifest.files, lock)
