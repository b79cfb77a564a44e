"""The copy of the store over a WebSocket: the whole of it first, then every change, and a word twice a second."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import WSMsgType, web

from .replica import Remote, Replica
from .store import Store

Object = dict[str, Any]
WORD = 0.5  # s


async def follow(
    session: aiohttp.ClientSession,
    url: str,
    context: ssl.SSLContext,
    store: Replica,
    remote: Remote,
    heard: Callable[[Object], None],
    silence: float,
) -> None:
    """Returns when the other side ends it or is silent for that long."""
    with contextlib.suppress(
        aiohttp.ClientConnectionError, asyncio.TimeoutError, ConnectionError, ValueError, OSError
    ):
        opening = session.ws_connect(url, ssl=context, max_msg_size=0, timeout=0.5)
        socket = await asyncio.wait_for(opening, 2 * silence)
        try:
            while True:
                message = await asyncio.wait_for(socket.receive(), silence)
                if message.type != WSMsgType.TEXT:
                    return
                said = json.loads(message.data)
                if "snapshot" in said:
                    store.restore(said["snapshot"])
                heard(said)
                if "snapshot" in said:
                    remote.term, remote.open = said["term"], True
                    store.replay()
                store.take(said.get("entries") or [])
                if not remote.open:  # a change could not be sent: begin anew with a whole copy
                    return
                await socket.send_str(json.dumps({"ack": store.version}))
        finally:
            await socket.close()


async def serve(
    request: web.Request,
    store: Store,
    term: Callable[[], int],
    good: Callable[[], bool],
    extra: Callable[[], Object],
    acked: Callable[[int], None],
) -> web.WebSocketResponse:
    """Ends when this server changes sides: the other then asks again, and gets a whole copy."""
    socket = web.WebSocketResponse(max_msg_size=0)
    await socket.prepare(request)
    listener, begun = asyncio.Event(), term()
    store.listeners.add(listener)

    async def listen() -> None:
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                acked(json.loads(message.data)["ack"])

    reader = asyncio.ensure_future(listen())
    try:
        at = store.version
        await socket.send_str(json.dumps({"term": begun, "snapshot": store.content(), **extra()}))
        epoch = store.epoch
        while not reader.done() and good() and term() == begun and store.epoch == epoch:
            listener.clear()
            entries = store.since(at)
            if entries is None:
                break
            at = store.version
            await socket.send_str(json.dumps({"term": begun, "entries": entries, **extra()}))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(listener.wait(), WORD)
    except (ConnectionResetError, RuntimeError):
        pass
    finally:
        store.listeners.discard(listener)
        reader.cancel()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(socket.close(), 1)
    return socket
