"""The small internet: one HTTPS server for every download, with faults that can be switched while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from pathlib import Path

from aiohttp import web

from rehearsal import keys

# Faults that put other files in place of the right ones: a folder each beside www/right.
OTHER_FILES = ("stale-index", "rollback", "republished", "bomb", "retagged")
PORTAL = "/portal/login?session=0123456789"
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
        folders = [*(name for name in OTHER_FILES if name in faults), "right"]
        if "retagged" in faults and (self.www / "retagged" / inside).parent.is_dir():
            folders = ["retagged"]  # what the tag was before is not kept
        return next((file for name in folders if (file := self.www / name / inside).is_file()), None)

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
        if ("html" in faults and request.path.endswith(faults["html"])) or request.path_qs == PORTAL:
            return web.Response(body=HTML, content_type="text/html")
        if "portal" in faults:
            scheme = faults["portal"] or "https"
            return web.Response(status=302, headers={"Location": f"{scheme}://{keys.MIRROR_NAME}{PORTAL}"})
        if "endless" in faults:
            return await self.endless(request)
        file = self.find(request.path, faults)
        if file is None:
            return web.Response(status=404, text="Not Found\n")
        if not file.is_relative_to(self.www / "right") or _of_another_file(request, file):
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

    async def endless(self, request: web.Request) -> web.StreamResponse:
        """A body without an end, until the client goes away."""
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while request.method != "HEAD":
                await response.write(b"%2048d" % 0)
                await asyncio.sleep(0.5)
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
