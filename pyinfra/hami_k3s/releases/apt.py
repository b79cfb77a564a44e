"""NVIDIA's apt repository as the control side reads it: key by fingerprint, signed index by key, packages by index."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hami_k3s.facts.toolkit import primary_fingerprints
from hami_k3s.releases.fetch import Fetcher, FetchError, beginning
from hami_k3s.releases.lockfile import File

INDEX_MIB = 64  # of the unpacked list


@dataclass(frozen=True)
class Index:
    """`packages`: (name, version) -> deb. `files`: the key and the lists themselves, by their path in the repository."""

    packages: dict[tuple[str, str], File]
    files: dict[str, bytes]


def _gpg(*command: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)
    except FileNotFoundError as error:
        raise FetchError(
            f"{command[0]} is not installed here: it checks NVIDIA's signature (apt install gnupg gpgv)"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"{command[0]} did not end within 60 s") from error


def _signed(url: str, key: bytes, fingerprint: str, inrelease: bytes) -> str:
    """The text that the key signed. Errors: FetchError."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o700)
        base = ("gpg", "--batch", "--homedir", folder)
        shown = _gpg(*base, "--with-colons", "--show-keys", stdin=key)
        found = primary_fingerprints(shown.stdout.decode(errors="replace"))
        if not found:
            raise FetchError(
                f"{url}/gpgkey is not an OpenPGP key; it begins: {beginning(key)} (toolkit_repository_url)"
            )
        if found != (fingerprint,):
            raise FetchError(
                f"{url}/gpgkey is the key {' '.join(found)}, expected {fingerprint}: refused (toolkit_key_fingerprint)"
            )
        ring, signed, plain = home / "ring.gpg", home / "InRelease", home / "Release"
        if key.startswith(b"-----"):
            _gpg(*base, "-o", str(ring), "--dearmor", stdin=key)
        else:
            ring.write_bytes(key)
        signed.write_bytes(inrelease)
        done = _gpg("gpgv", "--homedir", folder, "--keyring", str(ring), "-o", str(plain), str(signed))
        if done.returncode or not plain.exists():
            raise FetchError(
                f"{url}: its InRelease is not signed by the key {fingerprint}: refused; it begins: {beginning(inrelease)}"
            )
        return plain.read_text(encoding="utf-8", errors="replace")


def _unpacked(url: str, name: str, body: bytes) -> str:
    """A list's text, no larger than INDEX_MIB. Errors: FetchError."""
    packed, most = io.BytesIO(body), INDEX_MIB << 20
    try:
        if name.endswith(".xz"):
            with lzma.open(packed) as content:
                text = content.read(most + 1)
        elif name.endswith(".gz"):
            with gzip.open(packed) as unzipped:
                text = unzipped.read(most + 1)
        else:
            text = body
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise FetchError(f"{url}: cannot be unpacked: {error}") from error
    if len(text) > most:
        raise FetchError(f"{url}: unpacks to more than {INDEX_MIB} MiB: refused")
    return text.decode(errors="replace")


def index(fetcher: Fetcher, url: str, fingerprint: str, arch: str) -> Index:
    """The repository's index for one architecture. Errors: FetchError."""
    folder = f"stable/deb/{arch}"
    key = fetcher.text(f"{url}/gpgkey", most=1 << 20)
    inrelease = fetcher.text(f"{url}/{folder}/InRelease", most=8 << 20)
    release = _signed(url, key, fingerprint, inrelease)
    sums = dict(re.findall(r"(?m)^ ([0-9a-f]{64}) +\d+ +(Packages(?:\.xz|\.gz)?)$", release))
    by_name = {name: sha256 for sha256, name in sums.items()}
    name = next((one for one in ("Packages.xz", "Packages.gz", "Packages") if one in by_name), None)
    if name is None:
        raise FetchError(f"{url}/{folder}/InRelease names no list of packages")
    body = fetcher.text(f"{url}/{folder}/{name}")
    found = hashlib.sha256(body).hexdigest()
    if found != by_name[name]:
        raise FetchError(
            f"sha256 of {url}/{folder}/{name} is {found}\nits InRelease says {by_name[name]}: refused"
        )
    packages = {}
    for paragraph in re.split(r"\n\s*\n", _unpacked(f"{url}/{folder}/{name}", name, body)):
        fields = dict(re.findall(r"(?m)^(Package|Version|Architecture|Filename|SHA256): (.+)$", paragraph))
        if len(fields) == 5 and fields["Architecture"] in (arch, "all"):
            deb = re.sub(r"^\./", "", fields["Filename"])
            file = File(url=f"{url}/{folder}/{deb}", sha256=fields["SHA256"])
            packages[fields["Package"], fields["Version"]] = file
    return Index(packages, {"gpgkey": key, f"{folder}/InRelease": inrelease, f"{folder}/{name}": body})
