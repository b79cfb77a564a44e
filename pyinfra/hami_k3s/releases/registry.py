"""Container registries, as much as a lock and a bundle need: digests of tags, manifests per architecture, archives."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from hami_k3s.releases import archives
from hami_k3s.releases.fetch import Fetcher, FetchError, beginning, reason
from hami_k3s.releases.lockfile import Image
from hami_k3s.releases.reference import DIGEST, Reference

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class Registries:
    """The registries, each through the first mirror and with the credentials of `k3s_registries`."""

    def __init__(self, fetcher: Fetcher, settings: Mapping[str, Any]) -> None:
        self.fetcher, self.settings = fetcher, settings
        self.tokens: dict[str, str] = {}

    def _base(self, registry: str) -> tuple[str, str]:
        """(URL, host whose credentials count)."""
        mirrors = self.settings.get("mirrors") or {}
        endpoints = ((mirrors.get(registry) or mirrors.get("*") or {}) or {}).get("endpoint") or []
        if endpoints:
            return str(endpoints[0]).rstrip("/"), str(endpoints[0]).split("/")[2]
        host = "registry-1.docker.io" if registry == "docker.io" else registry
        return f"https://{host}", registry

    def _headers(self, url: str, host: str, repository: str) -> dict[str, str]:
        given = ((self.settings.get("configs") or {}).get(host) or {}).get("auth") or {}
        login = (str(given["username"]), str(given["password"])) if "password" in given else None
        key = f"{host}/{repository}"
        if key not in self.tokens:
            self.tokens[key] = self._authorize(url, login)
        return {"Authorization": self.tokens[key]} if self.tokens[key] else {}

    def _authorize(self, url: str, login: tuple[str, str] | None) -> str:
        """The Authorization header that the registry wants, "" for none."""
        ask = self.fetcher.ask
        try:
            answer = ask("HEAD", url, headers={"Accept": ", ".join((*INDEXES, *MANIFESTS))}, timeout=60)
            wanted = answer.headers.get("WWW-Authenticate", "")
            if answer.status_code != 401:
                return ""
            if wanted.lower().startswith("basic") and login:
                return str(requests.Request("GET", url, auth=login).prepare().headers["Authorization"])
            fields = dict(re.findall(r'(\w+)="([^"]*)"', wanted))
            if "realm" not in fields or not fields["realm"].startswith("https://"):
                raise FetchError(f"{url}: it wants a login: set k3s_registries' configs for it")
            asked = {name: fields[name] for name in ("service", "scope") if name in fields}
            given = ask("GET", fields["realm"], params=asked, auth=login, timeout=60)
            data = given.json() if given.status_code == 200 else {}
        except (requests.RequestException, ValueError) as error:
            raise FetchError(
                f"{url}: {reason(error) if isinstance(error, requests.RequestException) else error}"
            ) from error
        token = data.get("token") or data.get("access_token")
        if not token:
            raise FetchError(f"{url}: its login at {fields['realm']} refuses: status {given.status_code}")
        return f"Bearer {token}"

    def manifest(self, reference: Reference, digest: str | None = None) -> tuple[dict[str, Any], str, bytes]:
        """(manifest or index, its digest, its bytes). Errors: FetchError, also when it is not of that digest."""
        base, host = self._base(reference.registry)
        url = f"{base}/v2/{reference.repository}/manifests/{quote(digest or reference.tag, safe=':')}"
        headers = self._headers(url, host, reference.repository)
        body = self.fetcher.text(url, {**headers, "Accept": ", ".join((*INDEXES, *MANIFESTS))}, 4 << 20)
        found = f"sha256:{hashlib.sha256(body).hexdigest()}"
        wanted = digest or (reference.tag if DIGEST.fullmatch(reference.tag) else None)
        if wanted and found != wanted:
            raise FetchError(f"{url} is {found}\nexpected {wanted}: refused")
        try:
            data = json.loads(body)
            if not isinstance(data, dict) or not ("manifests" in data or "layers" in data):
                raise ValueError
        except ValueError as error:
            raise FetchError(f"{url} is not an image's manifest; it begins: {beginning(body)}") from error
        return data, found, body

    def blob(self, reference: Reference, digest: str) -> Path:
        """A layer or config, in the cache. Errors: FetchError."""
        base, host = self._base(reference.registry)
        url = f"{base}/v2/{reference.repository}/blobs/{digest}"
        headers = self._headers(url, host, reference.repository)
        return self.fetcher.file(url, digest.removeprefix("sha256:"), headers)[0]

    def resolve(self, text: str, architectures: list[str]) -> Image:
        """The digest of a tag, and of the manifest of each architecture. Errors: FetchError."""
        reference = Reference.parse(text)
        data, digest, _ = self.manifest(reference)
        found: dict[str, str] = {}
        for entry in data.get("manifests", []):
            platform = entry.get("platform") or {}
            if platform.get("os") == "linux" and platform.get("architecture") in architectures:
                found.setdefault(platform["architecture"], entry["digest"])
        if "layers" in data:  # one architecture only, which the config names
            config = json.loads(self.blob(reference, data["config"]["digest"]).read_bytes())
            found = {config.get("architecture", "amd64"): digest}
        if missing := [arch for arch in architectures if arch not in found]:
            raise FetchError(f"image {text} has nothing for {', '.join(missing)}")
        return Image(digest=digest, manifests={arch: found[arch] for arch in architectures})

    def archive(self, text: str, image: Image, arch: str, out: Path) -> None:
        """One architecture's image as an OCI archive that k3s imports under its name; the same bytes each time.

        The locked index is in it with one of its manifests, so that the image has its digest on the node as if it was
        pulled, and pods that name it by digest find it.
        """
        reference = Reference.parse(text)
        top, _, index = self.manifest(reference, image.digest)
        digest = image.manifests[arch]
        manifest, _, body = self.manifest(reference, digest) if digest != image.digest else (top, "", index)
        blobs = [manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]
        if not all(isinstance(one, str) and DIGEST.fullmatch(one) for one in blobs):
            raise FetchError(f"image {text}: its manifest names something that is not a digest: refused")
        kind = top.get("mediaType", INDEXES[0] if "manifests" in top else MANIFESTS[0])
        small = {
            "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
            "index.json": archives.index(text, kind, image.digest, len(index)),
            f"blobs/sha256/{image.digest.removeprefix('sha256:')}": index,
            f"blobs/sha256/{digest.removeprefix('sha256:')}": body,
        }
        with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, content in small.items():
                tar.addfile(_member(name, len(content)), io.BytesIO(content))
            for blob in dict.fromkeys(blobs):
                file = self.blob(reference, blob)
                with file.open("rb") as stream:
                    tar.addfile(
                        _member(f"blobs/sha256/{blob.removeprefix('sha256:')}", file.stat().st_size), stream
                    )


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member
