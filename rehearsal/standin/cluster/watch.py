"""Watches: a stream of changes, from a version or from the beginning, with bookmarks."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from . import problem
from .resources import Resource, storage_key
from .store import Store

Object = dict[str, Any]
BOOKMARK_EVERY = 60.0


async def stream(
    request: web.Request,
    store: Store,
    resource: Resource,
    namespace: str,
    keep: Callable[[Object], bool],
    show: Callable[[Object], Object],
) -> web.StreamResponse:
    query = request.query
    key = storage_key(resource)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    version = query.get("resourceVersion") or ""
    initial = query.get("sendInitialEvents") == "true" or version in ("", "0")
    epoch, listener = store.epoch, asyncio.Event()
    store.listeners.add(listener)
    sent: set[tuple[str, str]] = (
        set()
    )  # what this client knows, so that selectors turn changes into ADDED or DELETED

    async def send(action: str, obj: Object) -> None:
        await response.write(json.dumps({"type": action, "object": obj}).encode() + b"\n")

    async def bookmark(at: int, done: bool = False) -> None:
        meta: Object = {"resourceVersion": str(at), "creationTimestamp": None}
        if done:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        await send("BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta})

    try:
        await response.prepare(request)
        at = store.version if initial else int(version)
        if initial:
            for obj in store.select(resource, namespace):
                if keep(obj):
                    sent.add(_address(obj))
                    await send("ADDED", show(obj))
            if query.get("sendInitialEvents") == "true" and query.get("allowWatchBookmarks") == "true":
                await bookmark(at, done=True)
        elif store.since(at) is None:
            text = f"too old resource version: {at} ({store.version})"
            await send("ERROR", problem.ProblemError(410, text).status())
            return response
        else:
            sent = {_address(o) for o in store.select(resource, namespace) if keep(o)}
            for _, action, changed, obj in reversed(store.since(at) or []):
                if changed == key and action == "ADDED":
                    sent.discard(_address(obj))
                elif changed == key and action == "DELETED" and keep(obj):
                    sent.add(_address(obj))
        deadline = _deadline(query.get("timeoutSeconds"))
        while True:
            listener.clear()
            if store.epoch != epoch:
                await send("ERROR", problem.ProblemError(410, "too old resource version").status())
                return response
            for _, action, changed, obj in store.since(at) or []:
                if changed == key and (not namespace or obj["metadata"].get("namespace") == namespace):
                    await _forward(action, obj, keep, show, sent, send)
            at = store.version
            if request.transport is None or request.transport.is_closing():
                return response
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return response
            try:
                await asyncio.wait_for(listener.wait(), min(left, BOOKMARK_EVERY))
            except TimeoutError:
                if query.get("allowWatchBookmarks") == "true":
                    await bookmark(at)
    except (ConnectionResetError, asyncio.CancelledError):
        return response
    finally:
        store.listeners.discard(listener)


def _deadline(text: str | None) -> float:
    return asyncio.get_running_loop().time() + (float(text) if text else 3600.0)


def _address(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


async def _forward(
    action: str,
    obj: Object,
    keep: Callable[[Object], bool],
    show: Callable[[Object], Object],
    sent: set[tuple[str, str]],
    send: Callable[[str, Object], Any],
) -> None:
    address = _address(obj)
    known = address in sent
    if action == "DELETED" or not keep(obj):
        if known:
            sent.discard(address)
            await send("DELETED", show(obj))
        return
    sent.add(address)
    await send("MODIFIED" if known else "ADDED", show(obj))
