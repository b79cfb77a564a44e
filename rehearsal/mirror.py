"""The small internet: one HTTPS server for every download, with faults that can be switched while it runs."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from pathlib import Path

from aiohttp import web

from rehearsal import keys

HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in to the network.</body></html>\n"


class Mirror:
    """Serves `www/right` of a rehearsal's state folder; `mirror-faults.json` beside it is read at each request."""

    def __init__(self, state: Path) -> None:
        self.www, self.faults_file = state / "www", state / "mirror-faults.json"
        self.log = (state / "mirror.log").open("a", buffering=1)

    def faults(self) -> dict[str, str]:
        """Name -> value ("" when it has none)."""
        try:
            names = json.loads(self.faults_file.read_text())
        except (OSError, ValueError):
            return {}
        return dict(name.partition("=")[::2] for name in names)

    def find(self, path: str, faults: dict[str, str]) -> Path | None:
        """The file for a decoded request path, from the wrong key's folder when that fault is on."""
        inside = path.strip("/")
        if ".." in inside.split("/"):
            return None
        other = self.www / "wrong" / inside
        if (
            "wrong-key" in faults
            and other.is_file()
            and not (faults["wrong-key"] and inside.endswith("gpgkey"))
        ):
            return other
        file = self.www / "right" / inside
        return file if file.is_file() else None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one request and logs it."""
        faults = self.faults()
        if "slow" in faults:
            await asyncio.sleep(float(faults["slow"] or 20))
        answer = await self.answer(request, faults)
        self.log.write(f"{time.strftime('%H:%M:%S')} {request.method} {request.raw_path} {answer.status}\n")
        return answer

    async def answer(self, request: web.Request, faults: dict[str, str]) -> web.StreamResponse:
        """The response, with whatever the faults make of it."""
        if "mirror-down" in faults:
            return web.Response(status=503, text="Service Unavailable\n")
        if "html-key" in faults and request.path.endswith("/gpgkey"):
            return web.Response(body=HTML, content_type="text/html")
        file = self.find(request.path, faults)
        if file is None:
            return web.Response(status=404, text="Not Found\n")
        if file.is_relative_to(self.www / "wrong") or _of_another_file(request, file):
            return web.Response(body=file.read_bytes())  # neither 304 nor 206: apt would keep what it has
        spoiled = "bad-checksum" in faults and file.name == "k3s"
        cut = "truncated" in faults and file.stat().st_size > 65536
        if not (spoiled or cut):
            return web.FileResponse(file)
        body = file.read_bytes() + (b"\n" if spoiled else b"")
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        if request.method != "HEAD":
            await response.write(body[: len(body) // 2] if cut else body)
        if cut and request.transport:
            request.transport.close()
        return response

    async def start(self, address: str) -> web.AppRunner:
        """Listens on `address`:443 of the calling thread's network namespace."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(keys.folder() / "server.crt", keys.folder() / "server.key")
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, address, 443, ssl_context=context).start()
        return runner


def _of_another_file(request: web.Request, file: Path) -> bool:
    """A Range meant for other content; aiohttp takes any If-Range that is not older than the file."""
    return request.if_range is not None and int(request.if_range.timestamp()) != int(file.stat().st_mtime)
