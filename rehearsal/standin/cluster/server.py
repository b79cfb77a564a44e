"""`k3s server`: the order in which a real one comes up, and what it dies of."""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from . import addons, containerd, events, log, machine, node, paths, pki
from .api import Api
from .cluster import Cluster
from .controllers import daemonsets, deployments, garbage, jobs, scheduler, services
from .hami import install as install_hami
from .kubelet.agent import Kubelet
from .kubelet.streams import Streams
from .objects import Objects
from .resources import Table
from .store import Store

Settings = dict[str, Any]
READY_AFTER = 2.0  # s between the agent's start and a Ready node


def notify(text: str) -> None:
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
            sender.sendall(text.encode())


async def run(version: str, settings: Settings) -> int:
    node_name = (settings.get("node-name") or machine.hostname()).lower()
    address = (settings.get("node-ip") or [machine.address()])[0]
    log.info(f"Starting k3s {version}")
    pki.prepare(node_name, address, settings.get("tls-san") or [])
    pki.write_token(settings.get("token") or _first_line(settings.get("token-file")))
    store = Store(paths.on_node(paths.DB))
    store.load()
    objects = Objects(store)
    cluster = Cluster(store, objects, Table(), version, node_name, address, time.monotonic())
    authority = paths.on_node(f"{paths.TLS}/server-ca.crt").read_bytes()
    api = Api(store, objects, cluster.table, version, f"{address}:{paths.API_PORT}", authority)
    runner = web.AppRunner(api.app(), access_log=None, handle_signals=False)
    await runner.setup()
    bind = settings.get("bind-address") or ("127.0.0.1" if paths.ROOT else None)
    try:
        await web.TCPSite(runner, bind, paths.API_PORT, shutdown_timeout=1.0, ssl_context=_tls()).start()
    except OSError as taken:
        log.fatal(
            f"starting kubernetes: preparing server: listen tcp :{paths.API_PORT}: bind: {taken.strerror}"
        )
        return 1
    mode = int(settings.get("write-kubeconfig-mode") or "600", 8)
    kubeconfig = settings.get("write-kubeconfig") or paths.KUBECONFIG
    pki.write_kubeconfig(kubeconfig, mode)
    log.info(f"Wrote kubeconfig {kubeconfig}")
    addons.install(cluster, settings.get("disable") or [])
    api.ready = True
    notify("READY=1")
    log.info("k3s is up and running")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    code = await _agent(cluster, api, settings, stop)
    store.save()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(runner.cleanup(), 3)
    return code


def _first_line(path: str | None) -> str | None:
    return paths.on_node(path).read_text().strip() if path else None


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = paths.on_node(paths.TLS)
    context.load_cert_chain(folder / "serving-kube-apiserver.crt", folder / "serving-kube-apiserver.key")
    context.load_verify_locations(folder / "client-ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _agent(cluster: Cluster, api: Api, settings: Settings, stop: asyncio.Event) -> int:
    """The part that runs pods. Its failure ends the whole process, after systemd was told that k3s is ready."""
    password = paths.on_node(paths.NODE_PASSWORD)
    if not password.exists():
        pki.write_private(password, os.urandom(16).hex().encode() + b"\n")
    try:
        cluster.daemon = containerd.Daemon(cluster.version, settings.get("default-runtime"))
    except containerd.RuntimeNotFoundError as missing:
        await asyncio.sleep(1)
        log.error(
            f"Shutdown request received: failed to start containerd: failed to setup containerd config: {missing}"
        )
        return 1
    needs_v2 = containerd.parse_version(cluster.version) >= (1, 35, 0)
    if needs_v2 and not paths.on_node(paths.CGROUP_CONTROLLERS).exists():
        await asyncio.sleep(1)
        text = "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is in maintenance mode"
        log.error(
            f"Shutdown request received: kubelet exited: failed to validate kubelet configuration: {text}"
        )
        return 1
    cluster.daemon.write()
    for name, binary in cluster.daemon.runtimes.items():
        log.info(f"Found nvidia container runtime {name} at {binary}")
    log.info(f"Running containerd -c {paths.CONTAINERD_CONFIG}; default runtime {cluster.daemon.default}")
    socket_runner = await _cri(cluster)
    cluster.kubelet = Kubelet(cluster)
    api.pod_sub = Streams(cluster).handle
    node.register(cluster, settings)
    cluster.syncs = [
        lambda c: c.table.sync_custom(c.store.select("apiextensions.k8s.io/customresourcedefinitions")),
        garbage.sync,
        deployments.sync,
        daemonsets.sync,
        jobs.sync,
        scheduler.sync,
        services.sync,
    ]
    install_hami(cluster)
    cluster.syncs.append(cluster.kubelet.sync)
    tasks = [
        asyncio.ensure_future(cluster.store.keep_saved()),
        asyncio.ensure_future(_every(10.0, lambda: node.beat(cluster), after=READY_AFTER)),
        asyncio.ensure_future(_every(2.0, lambda: addons.manifests(cluster))),
        asyncio.ensure_future(_every(60.0, lambda: events.expire(cluster.store))),
        asyncio.ensure_future(_control(cluster)),
    ]
    await stop.wait()
    log.info("Shutdown request received: pods keep running")
    for task in tasks:
        task.cancel()
    await socket_runner.cleanup()
    return 0


async def _every(seconds: float, do: Callable[[], object], after: float = 0.0) -> None:
    await asyncio.sleep(after)
    while True:
        try:
            do()
        except Exception as broken:
            log.error(f"{type(broken).__name__}: {broken}")
        await asyncio.sleep(seconds)


async def _control(cluster: Cluster) -> None:
    """One pass of every controller whenever something changed, and once a second anyway."""
    while True:
        cluster.store.changed.clear()
        for sync in cluster.syncs:
            try:
                sync(cluster)
            except Exception as broken:
                log.error(f"{getattr(sync, '__module__', sync)}: {type(broken).__name__}: {broken}")
                import traceback

                traceback.print_exc(file=sys.stderr)
        await asyncio.sleep(0.02)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(cluster.store.changed.wait(), 1.0)


async def _cri(cluster: Cluster) -> web.AppRunner:
    """The container runtime's socket, which crictl asks."""

    async def info(_request: web.Request) -> web.Response:
        return web.json_response(cluster.daemon.info())

    app = web.Application()
    app.router.add_get("/info", info)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    target = paths.on_node(paths.CONTAINERD_SOCKET)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    await web.UnixSite(runner, str(target)).start()
    return runner
