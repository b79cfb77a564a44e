"""apt-key.sh for real, with keys made here: only the key of the wanted fingerprint gets into the keyring."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_k3s.templating import render
from tests.unit.operations.loopback import Site, run

GPG = shutil.which("gpg")
pytestmark = pytest.mark.skipif(
    GPG is None or shutil.which("curl") is None, reason="gpg or curl is not installed"
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, bytes]]]:
    """Two keys: (fingerprint, armored public key)."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)

    def gpg(*arguments: str) -> str:
        command = [str(GPG), "--homedir", str(home), "--batch", "--quiet", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    made = []
    for name in ("one", "two"):
        gpg("--passphrase", "", "--quick-generate-key", f"{name}@example.com", "ed25519", "sign", "never")
        listed = gpg("--with-colons", "--list-keys", f"{name}@example.com")
        fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))
        made.append((fingerprint, gpg("--armor", "--export", fingerprint).encode()))
    yield made
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)


class Key:
    """apt-key.sh with its keyring in `it's a keyring/nvidia.asc`."""

    def __init__(self, folder: Path, site: Site, keys: list[tuple[str, bytes]]) -> None:
        self.site, self.keys = site, keys
        self.path = folder / "it's a keyring" / "nvidia.asc"
        self.fingerprint, body = keys[0]
        site.answers["/repo/gpgkey"] = body

    def run(self) -> subprocess.CompletedProcess[str]:
        values = {"url": f"{self.site.url}/repo", "fingerprint": self.fingerprint, "key": str(self.path)}
        return run(render("scripts/apt-key.sh", **values))

    def refused(self, *words: str) -> None:
        done = self.run()
        assert done.returncode == 1, done.stdout
        for word in words:
            assert word in done.stdout
        assert list(self.path.parent.iterdir()) == []


@pytest.fixture
def key(tmp_path: Path, site: Site, keys: list[tuple[str, bytes]]) -> Key:
    return Key(tmp_path, site, keys)


def test_key(key: Key) -> None:
    done = key.run()
    assert done.returncode == 0, done.stdout
    assert key.path.read_bytes() == key.keys[0][1]
    assert oct(key.path.stat().st_mode & 0o777) == "0o644"
    assert list(key.path.parent.iterdir()) == [key.path]


def test_key_of_somebody_else(key: Key) -> None:
    other, body = key.keys[1]
    key.site.answers["/repo/gpgkey"] = body
    key.refused(
        f"is the key {other}, expected {key.fingerprint}: refused",
        "set toolkit_key_fingerprint to it",
        "checked it",
    )


def test_two_keys_where_one_is_expected(key: Key) -> None:
    key.site.answers["/repo/gpgkey"] = key.keys[0][1] + key.keys[1][1]
    key.refused("expected", key.keys[0][0], key.keys[1][0])


def test_rotation_replaces_the_old_key_in_one_step(key: Key) -> None:
    assert key.run().returncode == 0
    key.fingerprint, body = key.keys[1]
    assert key.run().returncode == 1  # the server still has the old one
    assert key.path.read_bytes() == key.keys[0][1]
    key.site.answers["/repo/gpgkey"] = body
    assert key.run().returncode == 0
    assert key.path.read_bytes() == body


@pytest.mark.parametrize(
    "body", [b"<html>\n<title>Please log in</title>", b"", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx\n"]
)
def test_page_that_is_not_a_key(key: Key, body: bytes) -> None:
    key.site.answers["/repo/gpgkey"] = body
    begins = body[:6].decode()
    key.refused(
        f"/repo/gpgkey is not an OpenPGP key; it begins: {begins}",
        "a login page, a proxy",
        "toolkit_repository_url",
    )


def test_key_that_is_not_found(key: Key) -> None:
    key.site.answers.clear()
    key.refused(
        "error: 404",
        f"could not be fetched from {key.site.url}/repo/gpgkey",
        "toolkit_repository_url to a mirror",
    )
