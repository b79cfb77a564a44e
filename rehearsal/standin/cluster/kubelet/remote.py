"""Logs and exec of pods on other nodes: a kubelet's own listener, and the server's way to it."""

import asyncio
import contextlib
import ssl
from typing import Any

import aiohttp
from aiohttp import WSMsgType, web
from yarl import URL

from .. import identity, log, paths
from ..cluster import Cluster
from ..problem import ProblemError
from .streams import Streams

Object = dict[str, Any]
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
SUBS = ("log", "exec", "attach")


async def listen(
    cluster: Cluster, streams: Streams, certificate: str, key: str, authority: str
) -> web.AppRunner:
    """Port 10250, for servers alone."""

    async def answer(request: web.Request) -> web.StreamResponse:
        who = identity.of(request)
        if who is None or not who.is_server:
            return web.Response(status=401, text="Unauthorized")
        part = request.match_info
        try:
            pod = cluster.store.get("pods", part["namespace"], part["name"])
            if pod is None or part["sub"] not in SUBS:
                raise ProblemError(404, f'pod does not exist: "{part["namespace"]}_{part["name"]}"')
            return await streams.handle(request, pod, part["sub"])
        except ProblemError as refused:
            return web.json_response(refused.status(), status=refused.code)

    app = web.Application()
    app.router.add_route("*", "/pods/{namespace}/{name}/{sub}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    bind = "127.0.0.1" if paths.ROOT else None
    await web.TCPSite(runner, bind, paths.KUBELET_PORT, shutdown_timeout=1.0, ssl_context=context).start()
    return runner


class Router:
    """Where a pod's logs and processes are: here, or at another node's kubelet."""

    def __init__(
        self, cluster: Cluster, streams: Streams, session: aiohttp.ClientSession, context: ssl.SSLContext
    ) -> None:
        self.cluster, self.streams, self.session, self.context = cluster, streams, session, context

    async def handle(self, request: web.Request, pod: Object, sub: str) -> web.StreamResponse:
        place = pod["spec"].get("nodeName")
        if not place or place == self.cluster.node:
            return await self.streams.handle(request, pod, sub)
        node = self.cluster.store.get("nodes", "", place)
        if node is None:
            raise ProblemError(404, f'nodes "{place}" not found')
        status = node.get("status", {})
        address = next((a["address"] for a in status.get("addresses", []) if a["type"] == "InternalIP"), "")
        port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port", 10250)
        meta = pod["metadata"]
        # As it came: decoded and encoded again, a script in it would lose its line ends.
        query = request.rel_url.raw_query_string
        url = URL(
            f"https://{address}:{port}/pods/{meta['namespace']}/{meta['name']}/{sub}?{query}", encoded=True
        )
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._socket(request, url)
            return await self._plain(request, url)
        except (aiohttp.ClientConnectionError, TimeoutError, OSError) as lost:
            log.error(f"Sending HTTP 502 response to {request.remote}: dial tcp {address}:{port}: {lost}")
            text = f'Get "https://{address}:{port}/{sub}": proxy error from 127.0.0.1:{paths.API_PORT} while dialing '
            raise ProblemError(500, f"{text}{address}:{port}, code 502: 502 Bad Gateway") from lost

    async def _plain(self, request: web.Request, url: URL) -> web.StreamResponse:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with self.session.get(url, ssl=self.context, timeout=limit) as answer:
            kind = {"Content-Type": answer.headers.get("Content-Type", "text/plain")}
            response = web.StreamResponse(status=answer.status, headers=kind)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            return response

    async def _socket(self, request: web.Request, url: URL) -> web.StreamResponse:
        offered = [p.strip() for p in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        try:
            opening = self.session.ws_connect(url, ssl=self.context, protocols=offered, max_msg_size=0)
            inner = await asyncio.wait_for(opening, 10)
        except aiohttp.WSServerHandshakeError:
            return await self._plain(request, url)  # says why
        outer = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
        try:
            await outer.prepare(request)
            await asyncio.wait(
                [asyncio.ensure_future(_pump(outer, inner)), asyncio.ensure_future(_pump(inner, outer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            with contextlib.suppress(Exception):
                await inner.close()
                await outer.close()
        return outer


async def _pump(source: Any, target: Any) -> None:
    with contextlib.suppress(ConnectionResetError, RuntimeError):
        async for message in source:
            if message.type == WSMsgType.BINARY:
                await target.send_bytes(message.data)
            elif message.type == WSMsgType.TEXT:
                await target.send_str(message.data)
