"""A web server on the loopback whose answers a test sets, and scripts run as a unit on a host would run them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Site:
    """What the server answers: path -> body, or a function of the request handler."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []


@contextmanager
def serve() -> Iterator[Site]:
    """A site on a free port; it answers 404 to everything at first."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            answer = site.answers.get(self.path)
            if callable(answer):
                answer(self)
                return
            self.send_response(404 if answer is None else 200)
            body = b"<html>not found</html>" if answer is None else answer
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(f"http://127.0.0.1:{httpd.server_port}")
    thread = Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield site
    httpd.shutdown()
    httpd.server_close()


def run(script: str) -> subprocess.CompletedProcess[str]:
    """The script's output as the unit's log has it: both streams in one."""
    return subprocess.run(
        ["sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
