"""download.sh for real: the right file gets its name; anything else ends with the cause and the setting, and leaves nothing."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from hami_k3s.templating import render
from tests.unit.operations.loopback import Site, run

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
BINARY = b"#!/bin/sh\necho released\n" + bytes(range(256)) * 20


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class Download:
    """download.sh to `it's here/tool v1`, from a site that serves everything right until a test changes that."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.site = site
        self.dest = folder / "it's here" / "tool v1"
        site.answers["/v1%2Bk3s1/tool"] = BINARY
        site.answers["/v1%2Bk3s1/sums"] = f"{'0' * 64}  tool-arm64\n{digest(BINARY)}  tool\n".encode()

    def run(self, limit: int = 20, member: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
        values = {"sha256": "", "judge": "the lock", "sent": "", "shows": [], "version": "v1", "most_mib": 1}
        return run(
            render(
                "scripts/download.sh",
                **{**values, **more},
                dest=str(self.dest),
                url=f"{self.site.url}/v1%2Bk3s1/tool",
                sums_url=f"{self.site.url}/v1%2Bk3s1/sums",
                sums_name="tool",
                member=member,
                setting="tool_release_url",
                limit=limit,
                limit_setting="tool_download_timeout",
            )
        )

    def refused(self, *words: str, limit: int = 20, member: str = "", **more: Any) -> None:
        """It fails with these words and the setting, and leaves nothing behind."""
        done = self.run(limit, member, **more)
        assert done.returncode == 1, done.stdout
        for word in words:
            assert word in done.stdout
        assert list(self.dest.parent.iterdir()) == []

    def files(self) -> list[str]:
        return sorted(path.name for path in self.dest.parent.iterdir())


@pytest.fixture
def download(tmp_path: Path, site: Site) -> Download:
    return Download(tmp_path, site)


def test_download(download: Download) -> None:
    done = download.run()
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == str(download.dest)
    assert download.dest.read_bytes() == BINARY
    assert oct(download.dest.stat().st_mode & 0o777) == "0o755"
    assert download.files() == ["tool v1", "tool v1.sha256"]
    assert Path(f"{download.dest}.sha256").read_text() == f"{digest(BINARY)}\n"


def test_download_with_a_binary_mark_in_the_sums(download: Download) -> None:
    download.site.answers["/v1%2Bk3s1/sums"] = f"{digest(BINARY)} *tool\n".encode()
    assert download.run().returncode == 0


def test_download_of_an_archives_member(download: Download) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, body in (("linux-amd64/README", b"x"), ("linux-amd64/tool", BINARY)):
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    body = archive.getvalue()
    download.site.answers |= {"/v1%2Bk3s1/tool": body, "/v1%2Bk3s1/sums": f"{digest(body)}  tool\n".encode()}
    assert download.run(member="linux-amd64/tool").returncode == 0
    assert download.dest.read_bytes() == BINARY
    assert download.files() == ["tool v1", "tool v1.sha256"]


def test_archive_without_the_member_leaves_nothing(download: Download) -> None:
    body = gzip.compress(b"\0" * 1024)
    download.site.answers |= {"/v1%2Bk3s1/tool": body, "/v1%2Bk3s1/sums": f"{digest(body)}  tool\n".encode()}
    assert download.run(member="linux-amd64/tool").returncode != 0
    assert list(download.dest.parent.iterdir()) == []


def test_what_an_interrupted_download_left_is_removed(download: Download) -> None:
    left, beside = (download.dest.parent / f".download.{tool}.AbCdEf" for tool in ("tool v1", "other"))
    for folder in (left, beside):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"half")
    assert download.run().returncode == 0
    assert not left.exists()
    assert (beside / "file").exists(), "another tool may be on its way at the same time"


def test_what_is_there_and_verified_is_not_fetched_again(download: Download) -> None:
    assert download.run().returncode == 0
    download.site.answers.clear()
    assert download.run().returncode == 0
    assert download.run(sha256=digest(BINARY)).returncode == 0
    assert download.run(sha256="0" * 64).returncode == 1, "the lock wants another one"
    download.dest.chmod(0o644)
    assert download.run().returncode == 1


def test_wrong_sum(download: Download) -> None:
    download.site.answers["/v1%2Bk3s1/tool"] = BINARY + b"changed"
    download.refused(
        f"sha256 of {download.site.url}/v1%2Bk3s1/tool is {digest(BINARY + b'changed')}",
        digest(BINARY),
        "changed or cut on the way and is refused",
        "set tool_release_url to another source",
    )


def test_an_earlier_version_stays_when_the_new_one_is_refused(download: Download) -> None:
    download.dest.parent.mkdir()
    download.dest.write_text("the verified one")
    download.site.answers["/v1%2Bk3s1/tool"] = b"changed"
    assert download.run().returncode == 1
    assert download.dest.read_text() == "the verified one"
    assert list(download.dest.parent.iterdir()) == [download.dest]


def test_connection_that_is_cut(download: Download) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BINARY)))
        handler.end_headers()
        handler.wfile.write(BINARY[:100])

    download.site.answers["/v1%2Bk3s1/tool"] = cut
    download.refused(
        "curl: (18)",
        f"could not fetch {download.site.url}/v1%2Bk3s1/tool",
        "set tool_release_url to a mirror",
    )


@pytest.mark.parametrize("missing", ["tool", "sums"])
def test_not_found(download: Download, missing: str) -> None:
    del download.site.answers[f"/v1%2Bk3s1/{missing}"]
    download.refused(
        "error: 404", f"could not fetch {download.site.url}/v1%2Bk3s1/{missing}", "tool_release_url"
    )


def test_nobody_listens(download: Download) -> None:
    download.site = Site("http://127.0.0.1:9")
    download.refused(
        "curl: (7)",
        "could not fetch http://127.0.0.1:9/v1%2Bk3s1/sums",
        "Check the route",
        "tool_release_url",
    )


def test_login_page_for_the_sums(download: Download) -> None:
    download.site.answers["/v1%2Bk3s1/sums"] = b"<html>\n<title>Please log in</title>"
    download.refused(
        "has no sha256 for tool; it begins: <html> <title>Please log in</title>",
        "A login page or proxy answers for it",
        "tool_release_url is wrong",
    )
    assert download.site.asked == ["/v1%2Bk3s1/sums"]


def test_login_page_for_the_file(download: Download) -> None:
    download.site.answers["/v1%2Bk3s1/tool"] = b"<html>log in</html>"
    download.refused("is refused", "tool_release_url")


@pytest.mark.parametrize(
    "sums",
    [
        f"{'0' * 64}  other\n",
        f"{'0' * 64}  tool.asc\n",
        f"{'0' * 64}  x tool\n",
        f"{'0' * 63}  tool\n",
        "  tool\n",
        f"{'G' * 64}  tool\n",
        "",
    ],
)
def test_sums_without_the_file(download: Download, sums: str) -> None:
    download.site.answers["/v1%2Bk3s1/sums"] = sums.encode()
    download.refused("has no sha256 for tool", "the version does not exist there", "tool_release_url")


def test_slow_server_meets_the_limit(download: Download) -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BINARY)))
        handler.end_headers()
        for byte in BINARY[:60]:
            try:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0.1)

    download.site.answers["/v1%2Bk3s1/tool"] = slow
    start = time.monotonic()
    download.refused("curl: (28)", "a slow line needs a higher tool_download_timeout", limit=1)
    assert time.monotonic() - start < 4


def packed(members: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return archive.getvalue()


def serve(download: Download, body: bytes) -> None:
    download.site.answers |= {"/v1%2Bk3s1/tool": body, "/v1%2Bk3s1/sums": f"{digest(body)}  tool\n".encode()}


def test_bomb_in_an_archive(download: Download) -> None:
    serve(download, packed({"linux-amd64/tool": bytes(3 << 20)}))
    download.refused("or one larger than 1 MiB: refused", "set tool_release_url", member="linux-amd64/tool")


def test_body_without_end(download: Download) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(bytes(65536))

    download.site.answers["/v1%2Bk3s1/tool"] = endless
    download.refused("larger than 1 MiB and was refused", "tool_release_url")


def test_older_file_under_a_newer_name(download: Download) -> None:
    old = b"#!/bin/sh\necho tool version v0.9 of old\n"
    serve(download, old)
    download.refused("says of itself: tool version v0.9 of old; that is not v1: refused", shows=["--version"])
    serve(download, old.replace(b"v0.9", b"v1"))
    assert download.run(shows=["--version"]).returncode == 0


def test_a_locked_sum_needs_no_sums_of_the_mirror(download: Download) -> None:
    assert download.run(sha256=digest(BINARY)).returncode == 0
    assert download.site.asked == ["/v1%2Bk3s1/tool"]


def test_mirror_whose_sums_agree_with_a_changed_file(download: Download) -> None:
    serve(download, b"changed")
    download.refused(digest(b"changed"), f"the lock says   {digest(BINARY)}", sha256=digest(BINARY))


def test_portal(download: Download) -> None:
    def away(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/portal?token=secret")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    download.site.answers |= {"/v1%2Bk3s1/tool": away, "/portal?token=secret": b"<html>log in</html>"}
    download.refused(f"The answer came from {download.site.url}/portal, where", "It begins: <html>log in")
    assert "secret" not in download.run().stdout


def test_file_that_was_sent(download: Download, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(BINARY)
    assert download.run(sent=str(sent), sha256=digest(BINARY)).returncode == 0
    assert download.dest.read_bytes() == sent.read_bytes() == BINARY
    assert download.site.asked == []
    download.dest.unlink()
    Path(f"{download.dest}.sha256").unlink()
    sent.write_bytes(b"changed")
    download.refused(f"sha256 of {sent} is {digest(b'changed')}", sent=str(sent), sha256=digest(BINARY))
