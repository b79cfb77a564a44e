"""What a server answers to those who join: k3s' own paths, and the paths by which the stand-in's processes share one state."""

import base64
import json
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from . import addons, critical, identity, log, nodepassword, paths, pki, replica, stream
from .cluster import Cluster
from .problem import ProblemError
from .raft import MEMBERS, TIMED_OUT, Raft
from .tokens import Passwords

Object = dict[str, Any]
Answer = web.StreamResponse
PASSED = ("Content-Type", "Accept", "User-Agent")
FOR_NODE = "X-Rehearsal-Node"


class Supervisor:
    def __init__(self, cluster: Cluster, raft: Raft, passwords: Passwords, settings: Object) -> None:
        self.cluster, self.raft, self.passwords, self.settings = cluster, raft, passwords, settings
        self.paths: dict[str, Callable[[web.Request], Coroutine[Any, Any, Answer]]] = {
            "/rehearsal/who": self._who,
            "/rehearsal/vote": self._vote,
            "/rehearsal/heir": self._heir,
            "/rehearsal/join": self._join,
            "/rehearsal/stream": self._stream,
            "/rehearsal/write": self._write,
            "/rehearsal/manifest": self._manifest,
        }

    async def handle(self, request: web.Request) -> Answer:
        if request.path.startswith("/v1-k3s/"):
            return await self._k3s(request, request.path.removeprefix("/v1-k3s/"))
        who = identity.of(request)
        answer = self.paths.get(request.path)
        if who is None or not (who.is_server or who.node):
            return web.Response(status=401, text="Unauthorized\n")
        if answer is None:
            return web.Response(status=404, text="Not Found\n")
        return await answer(request)

    async def forward(self, request: web.Request) -> Answer:
        """The same request, to the server that leads."""
        address = self.raft.peers().get(self.raft.leader)
        if not address or self.raft.session is None:
            raise ProblemError(500, TIMED_OUT)
        headers = {k: request.headers[k] for k in PASSED if k in request.headers}
        who = identity.of(request)
        if who and who.node:
            headers[FOR_NODE] = who.node
        url = f"https://{address}{request.raw_path}"
        limit = aiohttp.ClientTimeout(total=30)
        try:
            async with self.raft.session.request(
                request.method,
                URL(url, encoded=True),
                data=await request.read(),
                headers=headers,
                ssl=self.raft.context,
                timeout=limit,
            ) as answer:
                kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
                return web.Response(status=answer.status, body=await answer.read(), headers=kind)
        except (aiohttp.ClientError, TimeoutError, OSError) as lost:
            raise ProblemError(500, "etcdserver: leader changed") from lost

    # --- k3s' own

    def _role(self, request: web.Request) -> str | None:
        who = identity.of(request)
        if who and who.node and self.cluster.store.get("nodes", "", who.node):
            return "agent"
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return None
        user, _, password = base64.b64decode(text).decode(errors="replace").partition(":")
        return self.passwords.role(user, password)

    async def _k3s(self, request: web.Request, name: str) -> Answer:
        role = self._role(request)
        if role is None:
            log.error(
                f"Failed to authenticate request from {request.remote}: invalid username/password combination"
            )
            return _error(401, "not authorized")
        if name == "server-bootstrap":
            return self._bootstrap(request, role)
        if not self.raft.available:
            return _error(503, "apiserver not ready")
        if name == "config":
            content = {
                "ClusterDomain": self.settings.get("cluster-domain") or "cluster.local",
                "HTTPSPort": paths.API_PORT,
            }
            return web.json_response({**content, "SupervisorPort": paths.API_PORT})
        if name == "apiservers":
            return web.json_response(self.servers())
        if name in ("client-ca.crt", "server-ca.crt"):
            return web.Response(
                body=paths.on_node(f"{paths.TLS}/{name}").read_bytes(), content_type="text/plain"
            )
        if name in ("client-kubelet.crt", "serving-kubelet.crt"):
            return self._certificate(request, name.startswith("serving"))
        return _error(404, "not found")

    def _bootstrap(self, request: web.Request, role: str) -> Answer:
        if role != "server":
            return _error(403, "forbidden")
        if not self.raft.embedded:
            log.warning(
                f"Received HTTP bootstrap request from {request.remote}, but embedded etcd is not enabled."
            )
            return _error(400, "etcd disabled")
        given = {"agent": self.passwords.agent, "critical": critical.of(self.settings)}
        return web.json_response({**given, "files": pki.export()})

    def _certificate(self, request: web.Request, serving: bool) -> Answer:
        node = request.headers.get("k3s-Node-Name", "").lower()
        password = request.headers.get("k3s-Node-Password", "")
        if not node or not password:
            return _error(500, "node name not set" if not node else "node password not set")
        try:
            nodepassword.ensure(self.cluster.store, node, password)
        except nodepassword.RejectedError as why:
            log.error(f"Sending HTTP/1.1 403 response to {request.remote}: {why}")
            return _error(403, str(why))
        addresses = [a for a in request.headers.get("k3s-Node-IP", "").split(",") if a]
        return web.Response(body=pki.for_kubelet(node, addresses, serving), content_type="text/plain")

    def servers(self) -> list[str]:
        found = [m["address"] for m in self.raft.members().values() if not m["learner"]]
        return found or [f"{self.cluster.address}:{paths.API_PORT}"]

    # --- the shared state

    async def _who(self, _request: web.Request) -> Answer:
        return web.json_response(self.raft.who())

    async def _vote(self, request: web.Request) -> Answer:
        asked = await request.json()
        if asked["name"] not in self.raft.members():
            return web.Response(status=403, text="no member\n")
        return web.json_response(self.raft.vote(asked))

    async def _heir(self, _request: web.Request) -> Answer:
        self.raft.hurry = True
        return web.json_response({})

    async def _join(self, request: web.Request) -> Answer:
        """One server at a time, and only while there is a majority."""
        if not self.raft.available:
            return web.json_response({"error": "etcdserver: unhealthy cluster"})
        if not self.raft.leads:
            return await self.forward(request)
        asked, members = await request.json(), self.raft.members()
        old = members.get(asked["name"])
        if old and not (old["learner"] and old["address"] == asked["address"]):
            text = "duplicate node name found, please use a unique name for this node"
            return web.json_response({"fatal": f"etcd cluster join failed: {text}"})
        if not old and any(m["learner"] for m in members.values()):
            return web.json_response({"error": "etcdserver: too many learner members in cluster"})
        if not old:
            member = {"metadata": {"name": asked["name"]}, "address": asked["address"], "learner": True}
            self.cluster.store.create(MEMBERS, member)
        return web.json_response({"members": {n: m["address"] for n, m in self.raft.members().items()}})

    async def _stream(self, request: web.Request) -> Answer:
        raft, peer = self.raft, request.query.get("peer", "")
        if peer and not raft.leads:
            return web.Response(status=409, text="not the leader\n")
        if peer and peer not in raft.members():
            return web.Response(status=403, text="no member\n")
        if not peer and not raft.available:
            return web.Response(status=503, text="no leader\n")

        def good() -> bool:
            return raft.leads and peer in raft.members() if peer else raft.available

        return await stream.serve(
            request,
            self.cluster.store,
            lambda: raft.term,
            good,
            lambda: {} if peer else {"servers": self.servers()},
            (lambda version: raft.ack(peer, version)) if peer else (lambda _version: None),
        )

    async def _write(self, request: web.Request) -> Answer:
        if not self.raft.leads:
            return await self.forward(request)
        asked = await request.json()
        if asked["term"] != self.raft.term:
            return web.json_response({"resync": True})
        answer = replica.perform(self.cluster.store, asked)
        who = identity.of(request)
        # A server waits for its answer and cannot say meanwhile that it has the change; others wait for the majority.
        for_node = FOR_NODE in request.headers or (who is not None and who.node)
        if for_node and not await self.raft.committed(self.cluster.store.version):
            return web.Response(status=503, text=TIMED_OUT)
        return web.Response(text=json.dumps(answer), content_type="application/json")

    async def _manifest(self, request: web.Request) -> Answer:
        """Each server watches its own folder of manifests; what is in it is applied where changes are made."""
        if not self.raft.leads:
            return await self.forward(request)
        given = await request.json()
        addons.apply(self.cluster, given["path"], given["text"])
        return web.json_response({})


def _error(status: int, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    reason = {401: "Unauthorized", 403: "Forbidden", 400: "BadRequest"}.get(status, "InternalError")
    return web.json_response({**body, "reason": reason, "code": status}, status=status)
