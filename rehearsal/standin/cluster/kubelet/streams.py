"""`kubectl logs`, `kubectl exec` and `kubectl attach` (WebSocket, v5.channel.k8s.io)."""

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from .. import clock
from ..cluster import Cluster
from ..problem import ProblemError
from .container import Real, log_path

Object = dict[str, Any]
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255


class Streams:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def handle(self, request: web.Request, pod: Object, sub: str) -> web.StreamResponse:
        return await (self._log if sub == "log" else self._exec)(request, pod)

    def _container(self, request: web.Request, pod: Object) -> str:
        names = [c["name"] for c in pod["spec"]["containers"]]
        every = names + [c["name"] for c in pod["spec"].get("initContainers") or []]
        wanted = request.query.get("container")
        name = pod["metadata"]["name"]
        if wanted and wanted not in every:
            raise ProblemError(400, f"container {wanted} is not valid for pod {name}")
        if not wanted and len(names) > 1:
            text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
            raise ProblemError(400, text)
        return wanted or names[0]

    def _status(self, pod: Object, container: str) -> Object | None:
        status = pod.get("status", {})
        known = (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or [])
        return next((c for c in known if c["name"] == container), None)

    # --- logs

    async def _log(self, request: web.Request, pod: Object) -> web.StreamResponse:
        container, query = self._container(request, pod), request.query
        status = self._status(pod, container)
        name = pod["metadata"]["name"]
        if status is None:
            raise ProblemError(
                400, f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            )
        count = status.get("restartCount", 0)
        if query.get("previous") == "true":
            if not count:
                text = f'previous terminated container "{container}" in pod "{name}" not found'
                raise ProblemError(400, text)
            count -= 1
        path = log_path(pod, container, count)
        if not path.exists() and "waiting" in status["state"]:
            reason = status["state"]["waiting"].get("reason", "ContainerCreating")
            raise ProblemError(400, f'container "{container}" in pod "{name}" is waiting to start: {reason}')
        text = path.read_text(errors="replace") if path.exists() else ""
        lines = text.splitlines(keepends=True)
        if "tailLines" in query:
            count = int(query["tailLines"])
            lines = lines[-count:] if count else []
        if "sinceSeconds" in query:
            lines = [x for x in lines if clock.age(x.split(" ")[0][:26] + "Z") <= int(query["sinceSeconds"])]
        body = "".join(self._shown(line, query.get("timestamps") == "true") for line in lines)
        if "limitBytes" in query:
            body = body[: int(query["limitBytes"])]
        if query.get("follow") != "true":
            return web.Response(text=body)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(body.encode())
        await self._follow(
            response, pod, container, path, len(text.encode()), query.get("timestamps") == "true"
        )
        return response

    async def _follow(
        self, response: web.StreamResponse, pod: Object, container: str, path: Path, at: int, stamps: bool
    ) -> None:
        meta = pod["metadata"]
        while True:
            current = self.cluster.store.get("pods", meta["namespace"], meta["name"])
            status = self._status(current, container) if current else None
            over = status is None or "terminated" in status["state"]
            if path.exists():
                with path.open("rb") as stream:
                    stream.seek(at)
                    fresh = stream.read()
                whole = fresh[: fresh.rfind(b"\n") + 1]
                at += len(whole)
                for line in whole.decode(errors="replace").splitlines(keepends=True):
                    await response.write(self._shown(line, stamps).encode())
            if over:
                return
            await asyncio.sleep(0.2)

    def _shown(self, line: str, stamps: bool) -> str:
        time, _, tag, text = [*line.rstrip("\n").split(" ", 3), ""][:4]
        return (f"{time} {text}" if stamps else text) + ("\n" if tag == "F" else "")

    # --- exec

    def _held(self, pod: Object, container: str) -> Real:
        status = self._status(pod, container)
        if not pod["spec"].get("nodeName"):
            raise ProblemError(400, f"pod {pod['metadata']['name']} does not have a host assigned")
        if status is None or "running" not in status["state"]:
            if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                text = f"cannot exec into a container in a completed pod; current phase is {pod['status']['phase']}"
                raise ProblemError(400, text)
            raise ProblemError(
                500, f'unable to upgrade connection: container not found ("{container}")', "InternalError"
            )
        worker = self.cluster.kubelet.workers.get(pod["metadata"]["uid"])
        held = worker.running.get(container) if worker else None
        if not isinstance(held, Real):
            text = "error executing command in container: failed to exec in container: the image has no shell"
            raise ProblemError(500, f"Internal error occurred: {text}", "InternalError")
        return held

    async def _exec(self, request: web.Request, pod: Object) -> web.StreamResponse:
        container = self._container(request, pod)
        held = self._held(pod, container)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise ProblemError(400, "Upgrade request required")
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"))
        await socket.prepare(request)
        if request.path.endswith("/attach"):
            await self._attach(socket, pod, container, held)
        else:
            words = request.query.getall("command", [])
            await self._command(socket, held, words, request.query.get("stdin") == "true")
        with contextlib.suppress(ConnectionResetError):
            await socket.close()
        return socket

    async def _attach(self, socket: web.WebSocketResponse, pod: Object, container: str, held: Real) -> None:
        """Output only: the container's log as it grows."""
        path = log_path(pod, container, (self._status(pod, container) or {}).get("restartCount", 0))
        at = 0
        while True:
            over = held.exit()
            with path.open("rb") as stream:
                stream.seek(at)
                fresh = stream.read()
            at += len(fresh)
            for line in fresh.decode(errors="replace").splitlines(keepends=True):
                channel = STDERR if " stderr " in line[:60] else STDOUT
                await socket.send_bytes(bytes([channel]) + self._shown(line, False).encode())
            if over:
                await socket.send_bytes(bytes([ERROR]) + json.dumps(_verdict(over.code)).encode())
                return
            await asyncio.sleep(0.2)

    async def _command(
        self, socket: web.WebSocketResponse, held: Real, words: list[str], wants_stdin: bool
    ) -> None:
        config = held.config()
        prefix = [
            "/usr/bin/nsenter",
            "-t",
            str(held.pid),
            "-m",
            "-u",
            "-i",
            "-p",
            "-r",
            f"-w{config['cwd']}",
            "--",
        ]
        process = await asyncio.create_subprocess_exec(
            *prefix,
            *words,
            env=config["env"],
            stdin=asyncio.subprocess.PIPE if wants_stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

        async def pump(stream: asyncio.StreamReader, channel: int) -> None:
            while piece := await stream.read(32768):
                await socket.send_bytes(bytes([channel]) + piece)

        async def feed() -> None:
            async for message in socket:
                if message.type != WSMsgType.BINARY or process.stdin is None:
                    continue
                if message.data[:1] == bytes([STDIN]):
                    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                        process.stdin.write(message.data[1:])
                        await process.stdin.drain()
                elif message.data[:2] == bytes([CLOSE, STDIN]):
                    process.stdin.close()

        reader = asyncio.ensure_future(feed())
        output = asyncio.gather(pump(process.stdout, STDOUT), pump(process.stderr, STDERR))
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait({reader, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():  # the client went away
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await ended
        with contextlib.suppress(ConnectionResetError, asyncio.TimeoutError):
            await asyncio.wait_for(output, 5)
            code = ended.result()
            await socket.send_bytes(
                bytes([ERROR]) + json.dumps(_verdict(code if code >= 0 else 128 - code)).encode()
            )
        reader.cancel()


def _verdict(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
