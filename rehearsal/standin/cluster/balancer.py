"""An agent's load balancer on 127.0.0.1:6444: every connection goes to a server that answers, the last good one first."""

import asyncio
import contextlib
import json
import threading
import time
import urllib.parse

from . import log, paths, pki

DIAL = 3.0  # s
SILENT = 30.0  # s


class Balancer:
    """Runs in a thread of its own: the agent's main loop waits for answers that come through here."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.url = url
        self.default = f"{parts.hostname}:{parts.port or 443}"
        self.file = paths.on_node(f"{paths.AGENT}/etc/k3s-agent-load-balancer.json")
        self.servers: list[str] = []
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(self.file.read_text())
            if kept["ServerURL"] == url:
                self.servers = kept["ServerAddresses"]
        self.first = ""
        self.silent: dict[str, float] = {}  # when a server did not answer
        self.failed: OSError | None = None
        self._up = threading.Event()

    def start(self) -> None:
        """Raises OSError when the port is taken."""
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._up.wait()
        if self.failed:
            raise self.failed
        log.info(
            f"Running load balancer k3s-agent-load-balancer 127.0.0.1:{paths.BALANCER_PORT} -> {self._order()}"
        )

    def update(self, servers: list[str]) -> None:
        """The servers as the cluster names them; the one that was named to join is kept as the last resort."""
        if servers and servers != self.servers:
            log.info(f"Updated load balancer k3s-agent-load-balancer server addresses -> {servers}")
            self.servers = servers
            content = {"ServerURL": self.url, "ServerAddresses": servers}
            pki.write_private(self.file, json.dumps(content).encode())

    def _order(self) -> list[str]:
        """Those that did not answer a moment ago come last."""
        everyone = dict.fromkeys(filter(None, [self.first, *self.servers, self.default]))
        return sorted(everyone, key=lambda s: time.monotonic() - self.silent.get(s, -SILENT) < SILENT)

    async def _serve(self) -> None:
        try:
            server = await asyncio.start_server(self._connect, "127.0.0.1", paths.BALANCER_PORT)
        except OSError as taken:
            self.failed = taken
            self._up.set()
            return
        self._up.set()
        async with server:
            await server.serve_forever()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for server in self._order():
            host, _, port = server.rpartition(":")
            try:
                inner = await asyncio.wait_for(asyncio.open_connection(host, int(port)), DIAL)
            except (OSError, TimeoutError):
                self.silent[server] = time.monotonic()
                continue
            self.silent.pop(server, None)
            self.first = server
            with contextlib.suppress(Exception):
                await asyncio.wait(
                    [
                        asyncio.ensure_future(_copy(reader, inner[1])),
                        asyncio.ensure_future(_copy(inner[0], writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            inner[1].close()
            writer.close()
            return
        writer.transport.abort()  # seen as a reset: no server answers


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
