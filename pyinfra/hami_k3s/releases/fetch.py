"""Downloads of the control side: retries, limits on size and time, progress, and a cache of files by their sum."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

TEXT_MIB, FILE_MIB = 64, 16 << 10  # the most that an index and a file may have
TEXT_SECONDS, FILE_SECONDS = 120, 4 * 3600
ATTEMPTS = 3


class FetchError(Exception):
    """Something could not be had; the message says what, why and which setting names another source."""


def beginning(body: bytes) -> str:
    """The first characters of an answer, to show that it is a login page."""
    return "".join(letter if letter.isprintable() else " " for letter in body[:80].decode(errors="replace"))


def cache_folder() -> Path:
    """Where files are kept under their sha256."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "hami-k3s" / "files"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Fetcher:
    """One session. `proxies` and `authorities` (a PEM file beside the usual ones) are those of the settings."""

    def __init__(self, proxies: Mapping[str, str], authorities: str | None = None, say: bool = True) -> None:
        self.say = say
        self._texts: dict[str, bytes] = {}  # asked once a run
        self.session = requests.Session()
        retries = Retry(total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))
        for scheme in ("https://", "http://"):
            self.session.mount(scheme, HTTPAdapter(max_retries=retries))
        # requests reads the proxies of the environment; the settings win.
        for name, value in proxies.items():
            os.environ[name] = os.environ[name.upper()] = value
        self.trusted: bool | str = self._trust(Path(authorities)) if authorities else True

    def ask(self, method: str, url: str, **more: Any) -> requests.Response:
        """One request. Named for each: requests lets REQUESTS_CA_BUNDLE win over what a session trusts."""
        return self.session.request(method, url, verify=self.trusted, **more)

    @staticmethod
    def _trust(own: Path) -> str:
        try:
            text = own.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise FetchError(f"private_ca: {own} cannot be read: {error}") from error
        usual = Path(os.environ.get("REQUESTS_CA_BUNDLE") or requests.utils.DEFAULT_CA_BUNDLE_PATH).read_text(
            encoding="utf-8"
        )
        trusted = (usual + "\n" + text).encode()
        kept = cache_folder() / hashlib.sha256(trusted).hexdigest()
        if not kept.exists():
            with _new(kept) as out:
                out.write_bytes(trusted)
        return str(kept)

    def _stream(self, url: str, headers: Mapping[str, str], most: int, seconds: float) -> Iterator[bytes]:
        end, got, told = time.monotonic() + seconds, 0, time.monotonic()
        with self.ask("GET", url, headers=dict(headers), stream=True, timeout=(20, 60)) as answer:
            if answer.status_code != 200:
                raise FetchError(f"{url}: HTTP status {answer.status_code}")
            if url.startswith("https:") and not answer.url.startswith("https:"):
                raise FetchError(f"{url}: redirected to {answer.url.split('?')[0]}, without TLS: refused")
            whole = int(answer.headers.get("Content-Length") or 0)
            for block in answer.iter_content(1 << 18):
                got += len(block)
                if got > most:
                    raise FetchError(f"{url}: larger than {most >> 20} MiB: refused")
                if time.monotonic() > end:
                    raise FetchError(f"{url}: not complete after {seconds:.0f} s: given up")
                if self.say and time.monotonic() - told > 2:
                    told = time.monotonic()
                    of = f" of {whole >> 20}" if whole else ""
                    sys.stderr.write(f"    {url.rsplit('/', 1)[-1]}: {got >> 20}{of} MiB\n")
                yield block

    def text(self, url: str, headers: Mapping[str, str] | None = None, most: int = TEXT_MIB << 20) -> bytes:
        """A small answer, the same for the whole run. Errors: FetchError."""
        try:
            if url not in self._texts:
                self._texts[url] = b"".join(self._stream(url, headers or {}, most, TEXT_SECONDS))
            return self._texts[url]
        except requests.RequestException as error:
            raise FetchError(f"{url}: {reason(error)}") from error

    def file(
        self, url: str, sha256: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[Path, str]:
        """A file in the cache, and its sum; fetched only when the cache has none of that sum.

        Errors: FetchError, with both sums when it is another file than expected.
        """
        if sha256 and (kept := self._kept(sha256)):
            return kept, sha256
        for attempt in range(ATTEMPTS):
            try:
                return self._file(url, sha256, headers or {})
            except requests.RequestException as error:
                if attempt == ATTEMPTS - 1:
                    raise FetchError(f"{url}: {reason(error)}") from error
        raise AssertionError("unreachable")

    @staticmethod
    def _kept(sha256: str) -> Path | None:
        kept = cache_folder() / sha256
        if not kept.is_file():
            return None
        with kept.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() == sha256:
                return kept
        kept.unlink()
        return None

    def _file(self, url: str, sha256: str | None, headers: Mapping[str, str]) -> tuple[Path, str]:
        total, first = hashlib.sha256(), b""
        with _new(cache_folder() / "unnamed") as scratch:
            with scratch.open("wb") as out:
                for block in self._stream(url, headers, FILE_MIB << 20, FILE_SECONDS):
                    first = first or block[:80]
                    total.update(block)
                    out.write(block)
            found = total.hexdigest()
            if sha256 and found != sha256:
                page = f"\nIt begins: {beginning(first)}" if first.startswith(b"<") else ""
                raise FetchError(f"sha256 of {url} is {found}\nexpected {sha256}: refused{page}")
            final = cache_folder() / found
            scratch.replace(final)
            return final, found


@contextmanager
def _new(final: Path) -> Iterator[Path]:
    """A scratch file beside `final`; renamed to it unless it is gone by then, and removed when something failed."""
    handle, name = tempfile.mkstemp(prefix=".new-", dir=final.parent)
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        if scratch.exists() and final.name != "unnamed":
            scratch.replace(final)
    finally:
        scratch.unlink(missing_ok=True)


def reason(error: requests.RequestException) -> str:
    """Short, and without the proxy's address, which may hold a password."""
    if isinstance(error, requests.exceptions.SSLError):
        return "the server's certificate is not trusted; private_ca names a further authority"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy does not answer or refuses (http_proxy, https_proxy)"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    cause = getattr(error, "args", [error])[0]
    return f"{type(error).__name__}: {str(getattr(cause, 'reason', cause)).rpartition('): ')[2][:200]}"
