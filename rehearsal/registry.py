"""A container registry as plain files: what a client asks of `/v2/`, for small stand-ins of the images a node needs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

OCI = "application/vnd.oci.image"
NAMES = (
    "library/python:3.12-slim",
    "projecthami/hami:v2.9.0",
    "projecthami/hami:v2.6.1",
    "liangjw/kube-webhook-certgen:v1.1.1",
    "kube-scheduler:v1.36.2",
    "kube-scheduler:v1.35.6",
    "google_containers/kube-scheduler:v1.36.2",
)


def _layer(text: str) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        member = tarfile.TarInfo("rehearsal")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(plain.getvalue(), mtime=0)


def assemble(folder: Path, names: tuple[str, ...] = NAMES, what: str = "stand-in") -> None:
    """Fills `folder` (served as /v2) with these images, for amd64 alone; another `what` is other content."""
    for image in names:
        name, _, tag = image.partition(":")
        for kind in ("manifests", "blobs"):
            (folder / name / kind).mkdir(parents=True, exist_ok=True)

        def store(kind: str, body: bytes, where: Path = folder / name) -> str:
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            (where / kind / digest).write_bytes(body)
            return digest

        layer = _layer(f"{what} for {image}\n")
        inner = f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}"
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "rootfs": {"type": "layers", "diff_ids": [inner]},
                "config": {},
            }
        ).encode()
        described = {
            "mediaType": f"{OCI}.config.v1+json",
            "digest": store("blobs", config),
            "size": len(config),
        }
        layers = [
            {"mediaType": f"{OCI}.layer.v1.tar+gzip", "digest": store("blobs", layer), "size": len(layer)}
        ]
        kind = f"{OCI}.manifest.v1+json"
        manifest = json.dumps(
            {"schemaVersion": 2, "mediaType": kind, "config": described, "layers": layers}
        ).encode()
        platform = {"architecture": "amd64", "os": "linux"}
        entry = {
            "mediaType": kind,
            "digest": store("manifests", manifest),
            "size": len(manifest),
            "platform": platform,
        }
        index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [entry]}
        digest = store("manifests", json.dumps(index).encode())
        (folder / name / "manifests" / tag).symlink_to(digest)
