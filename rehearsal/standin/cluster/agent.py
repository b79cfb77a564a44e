"""`k3s agent`: joins a server and runs pods. What it cannot get it waits for, for ever, and says so in its log."""

import asyncio
import contextlib
import json
import random
import signal
import time
from typing import Any

import aiohttp

from . import log, machine, nodeagent, nodepassword, paths, pki, tokens
from .balancer import Balancer
from .cluster import Cluster
from .join import JoinError, RefusedError, Server, check_url
from .notify import notify
from .objects import Objects
from .replica import Nobody, Remote, Replica
from .resources import Table
from .stream import follow

Settings = dict[str, Any]
CERTIFICATE = f"{paths.AGENT}/client-kubelet"
SILENCE = 5.0  # s without a word from the server


def run(version: str, settings: Settings) -> int:
    if not machine.routed():
        log.fatal(machine.NO_ROUTE)
        return 1
    token = settings.get("token") or ""
    if settings.get("token-file"):
        try:
            token = paths.on_node(settings["token-file"]).read_text().strip()
        except OSError as missing:
            log.fatal(f"Error: open {settings['token-file']}: {(missing.strerror or '').lower()}")
            return 1
    if not token and not paths.on_node(f"{CERTIFICATE}.crt").exists():
        log.fatal("Error: --token is required")
        return 1
    if not settings.get("server"):
        log.fatal("Error: --server is required")
        return 1
    log.info(f"Starting k3s agent {version}")
    for number in (signal.SIGTERM, signal.SIGINT):  # also while it waits
        signal.signal(number, _stop)
    try:
        url = check_url(settings["server"])
        name, address = nodeagent.name_and_address(settings)
        balancer = Balancer(url)
        balancer.start()
    except (JoinError, OSError) as broken:
        log.fatal(f"Error: {broken}")
        return 1
    server = _validated(url, token)
    _configured(server, name, address)
    cluster = _cluster(version, name, address)
    try:
        nodeagent.check(cluster, settings)
    except nodeagent.ShutdownError as why:
        log.error(f"Shutdown request received: {why}")
        return 1
    return asyncio.run(_serve(cluster, settings, balancer))


def _stop(_number: int, _frame: Any) -> None:
    raise SystemExit(0)


def _validated(url: str, text: str) -> Server:
    """Every 2 s until the server shows the CA that the token names. The password is not asked for here."""
    while True:
        try:
            token = tokens.parse(text)
            server = Server(f"https://127.0.0.1:{paths.BALANCER_PORT}", "node", token.password)
            server.trust(token)
            return server
        except (JoinError, tokens.BadTokenError) as failed:
            log.error(f"Failed to validate connection to cluster at {url}: {failed}")
            time.sleep(2)


def _configured(server: Server, name: str, address: str) -> None:
    """Every 5 to 10 s until the server hands out configuration and certificates."""
    while True:
        try:
            _fetch(server, name, address)
            return
        except JoinError as failed:
            log.info(f"Waiting to retrieve agent configuration; server is not ready: {failed}")
            time.sleep(5 + random.uniform(0, 5))


def _fetch(server: Server, name: str, address: str) -> None:
    server.certificate = CERTIFICATE
    try:
        try:
            server.get("/v1-k3s/config")
        except JoinError as failed:
            if isinstance(failed, RefusedError) and failed.status != 401:
                raise
            # A certificate of a deleted node, or of another cluster.
            server.certificate = ""
            if paths.on_node(f"{CERTIFICATE}.crt").exists():
                log.info("Node authorization rejected, retrying without client certificate authentication")
            server.get("/v1-k3s/config")
    except JoinError as failed:
        raise JoinError(f"failed to retrieve configuration from server: {failed}") from failed
    folder = paths.on_node(paths.AGENT)
    for authority in ("client-ca.crt", "server-ca.crt"):
        pki.write_private(folder / authority, server.get(f"/v1-k3s/{authority}"))
    headers = {"k3s-Node-Name": name, "k3s-Node-Password": nodepassword.own(), "k3s-Node-IP": address}
    for kind in ("serving-kubelet", "client-kubelet"):
        try:
            certificate, key = pki.split(server.get(f"/v1-k3s/{kind}.crt", headers=headers))
        except RefusedError as refused:
            if refused.status == 403:
                raise JoinError(nodepassword.REJECTED.format(paths.NODE_PASSWORD)) from refused
            raise
        pki.write_private(folder / f"{kind}.crt", certificate)
        pki.write_private(folder / f"{kind}.key", key)
    pki.write_kubelet_kubeconfig()


def _cluster(version: str, name: str, address: str) -> Cluster:
    store = Replica(
        paths.on_node(f"{paths.AGENT}/unused")
    )  # never saved: an agent keeps no state of the cluster
    store.upstream = Nobody()
    objects = Objects(store)
    return Cluster(store, objects, Table(), version, name, address, time.monotonic(), roles=())


async def _serve(cluster: Cluster, settings: Settings, balancer: Balancer) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    follower = asyncio.ensure_future(_copy(cluster, balancer))
    ended = asyncio.ensure_future(stop.wait())
    store = cluster.store
    while not store.objects and not stop.is_set():  # the API is not there yet
        await asyncio.sleep(0.1)
    if stop.is_set():
        return 0
    try:
        _, runners = await nodeagent.start(cluster, settings)
    except nodeagent.ShutdownError as why:
        log.error(f"Shutdown request received: {why}")
        return 1
    cluster.syncs = [cluster.kubelet.sync]
    running = [follower, *nodeagent.tasks(cluster)]
    notify("READY=1")
    log.info("k3s agent is up and running")
    await ended
    log.info("Shutdown request received: pods keep running")
    for task in running:
        task.cancel()
    for runner in runners:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(runner.cleanup(), 2)
    return 0


async def _copy(cluster: Cluster, balancer: Balancer) -> None:
    """The cluster's state, from whichever server answers."""
    store = cluster.store
    assert isinstance(store, Replica)
    url = f"https://127.0.0.1:{paths.BALANCER_PORT}/rehearsal/stream?node={cluster.node}"

    def heard(message: dict[str, Any]) -> None:
        balancer.update(message.get("servers") or [])

    async with aiohttp.ClientSession() as session:
        while True:
            context = pki.kubelet_context()
            remote = Remote("127.0.0.1", paths.BALANCER_PORT, context)
            store.upstream = remote
            try:
                await follow(session, url, context, store, remote, heard, SILENCE)
            except aiohttp.ClientError as refused:
                log.warning(f"cannot follow the cluster: {refused}")
            except Exception as broken:
                log.error(f"following the cluster: {type(broken).__name__}: {broken}: {json.dumps(url)}")
            remote.close()
            store.upstream = Nobody()
            log.error(f"Remotedialer proxy error; reconnecting... url=wss://{balancer.first}/v1-k3s/connect")
            await asyncio.sleep(1)
