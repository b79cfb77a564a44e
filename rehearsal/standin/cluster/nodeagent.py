"""The part of k3s that runs pods, on servers and agents alike: containerd, kubelet, this machine as a Node."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import Any

from aiohttp import web

from . import containerd, log, machine, node, paths
from .cluster import Cluster
from .hami import register as register_hami
from .kubelet.agent import Kubelet
from .kubelet.remote import listen
from .kubelet.streams import Streams

Settings = dict[str, Any]
READY_AFTER = 2.0  # s between the agent's start and a Ready node


class ShutdownError(Exception):
    """What ends the whole process."""


def check(cluster: Cluster, settings: Settings) -> None:
    """containerd's configuration, written anew at each start, and what kubelet does not start with."""
    try:
        cluster.daemon = containerd.Daemon(cluster.version, settings.get("default-runtime"))
    except containerd.RuntimeNotFoundError as missing:
        raise ShutdownError(
            f"failed to start containerd: failed to setup containerd config: {missing}"
        ) from missing
    needs_v2 = containerd.parse_version(cluster.version) >= (1, 35, 0)
    if needs_v2 and not paths.on_node(paths.CGROUP_CONTROLLERS).exists():
        text = "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is in maintenance mode"
        raise ShutdownError(f"kubelet exited: failed to validate kubelet configuration: {text}")
    labels = node.forbidden_labels(settings)
    if labels:
        text = "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels"
        raise ShutdownError(f"kubelet exited: failed to validate kubelet flags: {text}: [{' '.join(labels)}]")
    cluster.daemon.write()
    for name, binary in cluster.daemon.runtimes.items():
        log.info(f"Found nvidia container runtime {name} at {binary}")
    log.info(f"Running containerd -c {paths.CONTAINERD_CONFIG}; default runtime {cluster.daemon.default}")


async def start(cluster: Cluster, settings: Settings) -> tuple[Streams, list[web.AppRunner]]:
    """The node registers, and its kubelet answers; `tasks` keep both going."""
    register_hami()
    runners = [await _cri(cluster)]
    cluster.kubelet = Kubelet(cluster)
    streams = Streams(cluster)
    certificates = paths.on_node(paths.AGENT)
    try:
        runners.append(
            await listen(
                cluster,
                streams,
                f"{certificates}/serving-kubelet.crt",
                f"{certificates}/serving-kubelet.key",
                f"{certificates}/client-ca.crt",
            )
        )
    except OSError as taken:
        raise ShutdownError(
            f"kubelet exited: listen tcp :{paths.KUBELET_PORT}: bind: {taken.strerror}"
        ) from taken
    node.register(cluster, settings)
    return streams, runners


def tasks(cluster: Cluster) -> list[asyncio.Future[Any]]:
    def beat() -> None:
        node.beat(cluster)
        cluster.kubelet.reassert()

    return [
        asyncio.ensure_future(every(10.0, beat, after=READY_AFTER)),
        asyncio.ensure_future(control(cluster)),
    ]


async def every(seconds: float, do: Callable[[], object], after: float = 0.0) -> None:
    await asyncio.sleep(after)
    while True:
        try:
            do()
        except Exception as broken:
            log.error(f"{type(broken).__name__}: {broken}")
        await asyncio.sleep(seconds)


async def control(cluster: Cluster) -> None:
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


def name_and_address(settings: Settings) -> tuple[str, str]:
    name = (settings.get("node-name") or machine.hostname()).lower()
    return name, (settings.get("node-ip") or [machine.address()])[0]
