"""Things made once and used by every rehearsal: built under a temporary name, renamed when whole."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """The cache folder. Private: it holds the keys of the rehearsal's CA and repository."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "hami-k3s-rehearsal"
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def digest(*parts: object) -> str:
    """A short key over strings and the contents of files and folders."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            files = (
                [p for p in sorted(part.rglob("*")) if "__pycache__" not in p.parts]
                if part.is_dir()
                else [part]
            )
            for file in files:
                if file.is_file():
                    total.update(
                        str(file.relative_to(part.parent)).encode() + b"\0" + file.read_bytes() + b"\0"
                    )
        else:
            total.update(repr(part).encode() + b"\0")
    return total.hexdigest()[:16]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One builder at a time; the lock goes with the process that holds it."""
    with (root() / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """`<cache>/<kind>-<key>`, made by `build(folder)` when it is not there yet; older keys are removed."""
    final = root() / f"{kind}-{key}"
    with locked(kind):
        if final.is_dir():
            final.touch()
            return final
        for left in root().glob(f".new-{kind}-*"):  # a builder that was killed
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f".new-{kind}-", dir=root()))
        folder.chmod(0o755)
        try:
            build(folder)
            folder.rename(final)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        # Two older ones stay: a running rehearsal may still stand on them.
        older = sorted((p for p in root().glob(f"{kind}-*") if p != final), key=lambda p: p.stat().st_mtime)
        for stale in older[:-2]:
            shutil.rmtree(stale, ignore_errors=True)
    return final
