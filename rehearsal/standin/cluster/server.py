"""`k3s server`: the order in which a real one comes up, and what it dies of."""

import asyncio
import contextlib
import signal
import ssl
import time
from typing import Any

import aiohttp
from aiohttp import web

from . import addons, events, joining, log, machine, nodeagent, nodepassword, paths, pki, tokens
from .api import Api
from .cluster import Cluster
from .controllers import daemonsets, deployments, garbage, jobs, nodes, scheduler, services
from .hami import control as hami
from .kubelet.remote import Router
from .notify import notify
from .objects import Objects
from .raft import Raft, RemovedError
from .replica import Replica
from .resources import Table
from .supervisor import Supervisor

Settings = dict[str, Any]


async def run(version: str, settings: Settings) -> int:
    """Ends with 1 when k3s would end with an error."""
    if not machine.routed():
        log.fatal(machine.NO_ROUTE)
        return 1
    name, address = nodeagent.name_and_address(settings)
    log.info(f"Starting k3s {version}")
    try:
        given = joining.token_of(settings)
        agent_token = joining.agent_token_of(settings)
        fresh = not joining.initialized()
        joins = fresh and bool(settings.get("server"))
        embedded = not fresh or joins or bool(settings.get("cluster-init"))
        peer = joining.bootstrap(settings, given) if joins else None
        pki.prepare(name, address, settings.get("tls-san") or [])
        passwords = tokens.write(given, settings.get("agent-token") if joins else agent_token)
    except (joining.FatalError, tokens.BadTokenError) as refused:
        text = str(refused)
        log.fatal(f"Error: {text if text.startswith(('preparing', 'open')) else f'preparing server: {text}'}")
        return 1
    store = Replica(paths.on_node(paths.DB))
    if not joins:
        store.load()
    raft = Raft(store, name, f"{address}:{paths.API_PORT}", embedded)
    objects = Objects(store)
    cluster = Cluster(store, objects, Table(), version, name, address, time.monotonic())
    cluster.roles = ("control-plane", "etcd") if embedded else ("control-plane",)
    one = _Server(cluster, raft, settings)
    async with aiohttp.ClientSession() as session:
        raft.session, raft.context = session, pki.peer_context()
        one.api.supervisor = Supervisor(cluster, raft, passwords, settings)
        one.api.raft = raft
        try:
            return await one.serve(peer, fresh)
        except (joining.FatalError, RemovedError) as why:
            log.fatal(f"Error: {why}")
            return 1
        finally:
            await one.close()


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = paths.on_node(paths.TLS)
    context.load_cert_chain(folder / "serving-kube-apiserver.crt", folder / "serving-kube-apiserver.key")
    context.load_verify_locations(folder / "client-ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


class _Server:
    def __init__(self, cluster: Cluster, raft: Raft, settings: Settings) -> None:
        self.cluster, self.raft, self.settings = cluster, raft, settings
        authority = paths.on_node(f"{paths.TLS}/server-ca.crt").read_bytes()
        address = f"{cluster.address}:{paths.API_PORT}"
        self.api = Api(cluster.store, cluster.objects, cluster.table, cluster.version, address, authority)
        self.runners: list[web.AppRunner] = []
        self.tasks: list[asyncio.Future[Any]] = []
        self.stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop.set)

    async def serve(self, peer: Any, fresh: bool) -> int:
        cluster, raft = self.cluster, self.raft
        runner = web.AppRunner(self.api.app(), access_log=None, handle_signals=False)
        await runner.setup()
        self.runners.append(runner)
        bind = self.settings.get("bind-address") or ("127.0.0.1" if paths.ROOT else None)
        try:
            await web.TCPSite(runner, bind, paths.API_PORT, shutdown_timeout=1.0, ssl_context=_tls()).start()
        except OSError as taken:
            log.fatal(
                f"starting kubernetes: preparing server: listen tcp :{paths.API_PORT}: bind: {taken.strerror}"
            )
            return 1
        if peer is not None:
            await joining.become_member(raft, peer)
        elif raft.embedded and fresh:
            raft.found()
            joining.write_name(raft.name)
        decides = asyncio.ensure_future(raft.run())
        self.tasks.append(decides)
        if not await self._until(self._member, decides, "Waiting for etcd server to become available"):
            return 1 if decides.done() else 0
        log.info("etcd data store connection OK" if raft.embedded else "Kine available at unix://kine.sock")
        if raft.leads:
            addons.install(cluster, self.settings.get("disable") or [])
        mode = int(self.settings.get("write-kubeconfig-mode") or "600", 8)
        kubeconfig = self.settings.get("write-kubeconfig") or paths.KUBECONFIG
        pki.write_kubeconfig(kubeconfig, mode)
        log.info(f"Wrote kubeconfig {kubeconfig}")
        self.api.ready = True
        notify("READY=1")
        log.info("k3s is up and running")
        try:
            await self._agent()
        except nodeagent.ShutdownError as why:
            await asyncio.sleep(1)  # systemd was told that k3s is ready; the API goes away with the process
            log.error(f"Shutdown request received: {why}")
            return 1
        self.tasks += self._background()
        ended = asyncio.ensure_future(self.stop.wait())
        await asyncio.wait([ended, decides], return_when=asyncio.FIRST_COMPLETED)
        if decides.done():
            decides.result()
        log.info("Shutdown request received: pods keep running")
        return 0

    def _member(self) -> bool:
        return self.raft.available and (not self.raft.embedded or self.raft.name in self.raft.voters())

    async def _until(self, good: Any, decides: asyncio.Future[Any], text: str) -> bool:
        """A server without its datastore waits, for ever; systemd goes on waiting with it."""
        said = 0.0
        while not good():
            if self.stop.is_set():
                return False
            if decides.done():
                decides.result()
                return False
            if time.monotonic() - said > 5:
                said = time.monotonic()
                log.info(text)
            await asyncio.sleep(0.1)
        return True

    async def _agent(self) -> None:
        """The part that runs pods. Its failure ends the whole process, after systemd was told that k3s is ready."""
        cluster = self.cluster
        try:
            while True:
                try:
                    nodepassword.ensure(cluster.store, cluster.node, nodepassword.own())
                    break
                except nodepassword.RejectedError:
                    why = nodepassword.REJECTED.format(paths.NODE_PASSWORD)
                    log.info(f"Waiting to retrieve agent configuration; server is not ready: {why}")
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self.stop.wait(), 5)
                        return
        finally:
            pki.own_kubelet(cluster.node, cluster.address)
        nodeagent.check(cluster, self.settings)
        streams, runners = await nodeagent.start(cluster, self.settings)
        self.runners += runners
        assert self.raft.session is not None
        assert self.raft.context is not None
        self.api.pod_sub = Router(cluster, streams, self.raft.session, self.raft.context).handle
        decided = [
            lambda c: c.table.sync_custom(c.store.select("apiextensions.k8s.io/customresourcedefinitions")),
            nodes.sync,
            garbage.sync,
            deployments.sync,
            daemonsets.sync,
            jobs.sync,
            scheduler.sync,
            services.sync,
            *hami(cluster),
        ]

        def lead(_cluster: Cluster) -> None:
            if self.raft.leads:
                for sync in decided:
                    sync(cluster)
            else:
                cluster.memory.pop("node-seen", None)
                decided[0](cluster)

        cluster.syncs = [lead, cluster.kubelet.sync]
        self.tasks += nodeagent.tasks(cluster)

    def _background(self) -> list[asyncio.Future[Any]]:
        cluster = self.cluster

        def expire() -> None:
            if self.raft.leads:
                events.expire(cluster.store)

        return [
            asyncio.ensure_future(cluster.store.keep_saved()),
            asyncio.ensure_future(nodeagent.every(60.0, expire)),
            asyncio.ensure_future(self._manifests()),
        ]

    async def _manifests(self) -> None:
        while True:
            for path, text in addons.changed(self.cluster):
                if self.raft.leads:
                    addons.apply(self.cluster, path, text)
                    continue
                address = self.raft.peers().get(self.raft.leader, "")
                done = await self.raft.post(address, "/rehearsal/manifest", {"path": path, "text": text})
                if done is None:  # tried again
                    self.cluster.memory.get("manifests", {}).clear()
            await asyncio.sleep(2.0)

    async def close(self) -> None:
        await self.raft.resign()
        for task in self.tasks:
            task.cancel()
        self.cluster.store.save()
        for runner in self.runners:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(runner.cleanup(), 3)
