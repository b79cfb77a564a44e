"""The control side's downloads against a server that lies, and a cache that is asked by sum."""

from __future__ import annotations

import contextlib
import hashlib
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from hami_k3s.releases import fetch
from hami_k3s.releases.fetch import Fetcher, FetchError
from hami_k3s.releases.reference import Reference
from tests.unit.operations.loopback import Site, serve

BODY = b"released" * 1000
SUM = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:  # type: ignore[misc]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fetch, "ATTEMPTS", 1)
    with serve() as found:
        found.answers["/f"] = BODY
        yield found


def kept() -> list[str]:
    return [path.name for path in fetch.cache_folder().iterdir()]


def test_a_file_is_fetched_once(site: Site) -> None:
    for _ in range(2):
        file, found = Fetcher({}).file(f"{site.url}/f", SUM)
        assert (file.read_bytes(), found) == (BODY, SUM)
    assert site.asked == ["/f"]
    assert kept() == [SUM]


def test_a_cached_file_that_rotted_is_fetched_again(site: Site) -> None:
    file, _ = Fetcher({}).file(f"{site.url}/f", SUM)
    file.write_bytes(b"rotten")
    assert Fetcher({}).file(f"{site.url}/f", SUM)[0].read_bytes() == BODY


def test_another_file_is_refused_with_both_sums(site: Site) -> None:
    site.answers["/f"] = b"<html>log in</html>"
    with pytest.raises(FetchError) as told:
        Fetcher({}).file(f"{site.url}/f", SUM)
    for word in (
        SUM,
        hashlib.sha256(b"<html>log in</html>").hexdigest(),
        "refused",
        "It begins: <html>log in",
    ):
        assert word in str(told.value)
    assert kept() == []


def test_truncated(site: Site) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BODY)))
        handler.end_headers()
        handler.wfile.write(BODY[:10])

    site.answers["/f"] = cut
    with pytest.raises(FetchError, match=r"IncompleteRead|Connection broken"):
        Fetcher({}).file(f"{site.url}/f")
    assert kept() == []


def test_without_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(bytes(65536))

    site.answers["/f"] = endless
    with pytest.raises(FetchError, match="larger than 1 MiB: refused"):
        Fetcher({}, say=False).text(f"{site.url}/f", most=1 << 20)
    monkeypatch.setattr(fetch, "FILE_SECONDS", 0)
    with pytest.raises(FetchError, match="given up"):
        Fetcher({}, say=False).file(f"{site.url}/f")
    assert kept() == []


def test_not_found_names_the_status(site: Site) -> None:
    with pytest.raises(FetchError, match="HTTP status 404"):
        Fetcher({}).text(f"{site.url}/none")


def test_a_proxys_password_is_never_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr("urllib3.util.retry.Retry.sleep", lambda *_: None)
    with pytest.raises(FetchError) as told:
        Fetcher({"http_proxy": "http://me:secret@127.0.0.1:9"}).text("http://192.0.2.1/f")
    assert "secret" not in str(told.value)
    assert "http_proxy" in str(told.value)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("docker.io/library/python:3.12-slim", "docker.io/library/python:3.12-slim"),
        ("nvidia/cuda:12", "docker.io/nvidia/cuda:12"),
        ("localhost:5000/x:1", "localhost:5000/x:1"),
        (f"registry.k8s.io/a/b:v1@sha256:{SUM}", f"registry.k8s.io/a/b:v1@sha256:{SUM}".replace(":v1@", "@")),
    ],
)
def test_references(text: str, full: str) -> None:
    assert str(Reference.parse(text)) == full
