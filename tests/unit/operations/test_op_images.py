"""images.sh for real: an archive is linked when it is the locked image down to the last byte; any other is refused."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from hami_k3s.releases import archives
from hami_k3s.releases.lockfile import Image
from hami_k3s.templating import render
from tests.unit.operations.loopback import Site, run

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
NAME = "registry.inside:5000/projecthami/hami:v2.9.0"
LAYER = b"layer" * 1000


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


MANIFEST = json.dumps({"layers": [{"digest": digest(LAYER)}]}).encode()
KIND = "application/vnd.oci.image.manifest.v1+json"
INDEX = archives.index(NAME, KIND, digest(MANIFEST), len(MANIFEST))
LOCKED = Image(digest=digest(MANIFEST), manifests={"amd64": digest(MANIFEST)})


def blob(body: bytes) -> tuple[str, bytes]:
    return f"blobs/sha256/{digest(body)[7:]}", body


RIGHT = [("oci-layout", b"{}"), ("index.json", INDEX), blob(MANIFEST), blob(LAYER)]


def packed(members: list[tuple[str, bytes]], link: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, body in members:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
        if link:
            member = tarfile.TarInfo(f"blobs/sha256/{'0' * 64}")
            member.type, member.linkname = tarfile.SYMTYPE, link
            tar.addfile(member)
    return out.getvalue()


class Host:
    """Folders in place of a host's, and a mirror."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.site, self.store, self.images = site, folder / "it's store", folder / "images"
        self.archive = archives.of_image(NAME, LOCKED, "amd64", site.url)
        self.file = self.store / self.archive.name

    def run(self, *wanted: archives.Archive) -> subprocess.CompletedProcess[str]:
        all_of = list(wanted) or [self.archive]
        script = render(
            "scripts/images.sh",
            archives=all_of,
            links={one.name: f"ours-{number}.tar" for number, one in enumerate(all_of)},
            list="".join(one.identity for one in all_of),
            list_file=str(self.store / "images.list"),
            prefix="ours-",
            folder=str(self.images),
            store=str(self.store),
            judge="the lock",
            most_mib=1,
            limit=5,
        )
        return run(script)

    def has(self) -> list[str]:
        """Everything but folders, that of the links included."""
        every = [*self.store.rglob("*"), *self.images.rglob("*")]
        return sorted(path.name for path in every if path.is_file())


@pytest.fixture
def host(tmp_path: Path, site: Site) -> Host:
    return Host(tmp_path, site)


def test_fetched(host: Host) -> None:
    host.images.mkdir()
    (host.images / "ours-earlier.tar").write_bytes(b"")
    (host.images / "theirs.tar").write_bytes(b"")
    host.site.answers[f"/{host.archive.name}"] = packed(RIGHT)
    done = host.run()
    assert done.returncode == 0, done.stdout
    assert host.has() == sorted(["images.list", "ours-0.tar", "theirs.tar", host.file.name])
    assert (host.images / "ours-0.tar").samefile(host.file)
    assert (host.store / "images.list").read_text() == host.archive.identity


def test_sent(host: Host) -> None:
    host.file.parent.mkdir(parents=True)
    host.file.write_bytes(packed(RIGHT))
    done = host.run(archives.of_image(NAME, LOCKED, "amd64", ""))
    assert done.returncode == 0, done.stdout
    assert (host.images / "ours-0.tar").samefile(host.file)


OTHER = archives.index(NAME, KIND, digest(b"other"), 5)
ALSO = json.loads(INDEX)
ALSO["manifests"].append({**ALSO["manifests"][0], "digest": digest(LAYER)})
LIES: dict[str, bytes] = {
    "another image": packed([("oci-layout", b"{}"), ("index.json", OTHER), blob(b"other")]),
    "another name": packed([("index.json", INDEX.replace(b"projecthami", b"project-ami")), *RIGHT[2:]]),
    "a name like it": packed([("index.json", INDEX.replace(b"v2.9.0", b"v2x9.0")), *RIGHT[2:]]),
    "a second image": packed([("index.json", json.dumps(ALSO).encode()), *RIGHT[2:]]),
    "a second index": packed([*RIGHT, ("index.json", OTHER)]),
    "an index of two lines": packed([("index.json", b'{"a":\n' + INDEX + b"\n}"), *RIGHT[2:]]),
    "docker's index beside it": packed([*RIGHT, ("manifest.json", b"[]")]),
    "content under another sum": packed([*RIGHT[:3], (blob(LAYER)[0], LAYER + b"x")]),
    "a path that leads out": packed([*RIGHT, ("../../etc/cron.d/x", b"* * * * * root id")]),
    "an absolute path": packed([*RIGHT, ("/etc/cron.d/x", b"* * * * * root id")]),
    "a link": packed(RIGHT, link="/etc/shadow"),
    "cut": packed(RIGHT)[:4000],
    "a login page": b"<!DOCTYPE html><title>Sign in</title>",
    "nothing": b"",
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("way", ["fetched", "sent"])
def test_another_archive(host: Host, lie: str, way: str) -> None:
    if way == "sent":
        host.file.parent.mkdir(parents=True)
        host.file.write_bytes(LIES[lie])
    host.site.answers[f"/{host.archive.name}"] = LIES[lie]
    done = host.run()
    assert done.returncode == 1, done.stdout
    assert "is another image" in done.stdout
    assert f"the lock says {NAME} {LOCKED.digest}" in done.stdout
    assert ("It begins: <!DOCTYPE" in done.stdout) is (lie == "a login page")
    if lie == "another image":
        assert digest(b"other") in done.stdout
    assert host.has() == []


def test_archive_that_the_mirror_does_not_have(host: Host) -> None:
    done = host.run()
    assert done.returncode == 0, done.stdout
    assert "is not there: what k3s lacks of it, it pulls by digest" in done.stdout
    assert host.has() == ["images.list"]


def test_body_past_the_limit(host: Host) -> None:
    host.site.answers[f"/{host.archive.name}"] = bytes(2 << 20)
    done = host.run()
    assert done.returncode == 1
    assert "it is larger than 1 MiB and was refused" in done.stdout
    assert host.has() == []


def test_archive_of_k3s_has_a_sum_of_its_own(host: Host) -> None:
    own = archives.Archive("k3s/own.tar.zst", f"{host.site.url}/own", sha256=digest(LAYER)[7:])
    host.site.answers["/own"] = LAYER
    assert host.run(own).returncode == 0
    (host.store / own.name).unlink()
    host.site.answers["/own"] = MANIFEST
    done = host.run(own)
    assert done.returncode == 1
    assert f"is {digest(MANIFEST)[7:]}" in done.stdout
    assert f"the lock says   {own.sha256}" in done.stdout


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_pattern_is_for_one_index_alone(shell: str) -> None:
    def matches(text: bytes) -> bool:
        pattern = archives.index_pattern(NAME, LOCKED.digest)
        command = [shell, "-c", 'grep -qxE -e "$1"', shell, pattern]
        return subprocess.run(command, input=text, check=False).returncode == 0

    assert matches(INDEX)
    assert matches(archives.index(NAME, "application/vnd.oci.image.index.v1+json", LOCKED.digest, 7))
    assert not matches(OTHER)
    assert not matches(INDEX[:-1])
