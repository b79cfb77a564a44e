"""The scheduler pod's two programs: kube-scheduler and HAMi's extender, which elects itself leader after a while."""

import asyncio
import contextlib
import random
from typing import Any

from .. import containerd, machine, node
from ..kubelet import programs
from ..kubelet.container import Played
from . import release

Object = dict[str, Any]
LEADER_AFTER = (3.0, 6.0)  # s; the real one takes its first tick, at most 15 s


def register() -> None:
    programs.register(lambda c: c.image.kind == "scheduler", kube_scheduler)
    programs.register(lambda c: c.image.kind == "hami" and c.spec["name"] == release.EXTENDER, extender)


async def kube_scheduler(context: programs.Context, held: Played) -> int:
    mine, theirs = containerd.parse_version(context.image.name.rsplit(":", 1)[-1]), context.cluster.version
    held.log(f'I1201 server.go:176] "Starting Kubernetes Scheduler" version="v{".".join(map(str, mine))}"')
    if abs(mine[1] - containerd.parse_version(theirs)[1]) > 1:
        held.log(
            f'E1201 run.go:72] "command failed" err="the server ({theirs}) does not serve what this version needs"'
        )
        return 1
    return await programs.idle(context, held)


async def extender(context: programs.Context, held: Played) -> int:
    held.log("I1201 scheduler.go:88] Initializing HAMi scheduler; listening on 0.0.0.0:443")
    delay = random.uniform(*LEADER_AFTER)
    late = machine.fault("webhook-late")
    if late is not None:
        delay = float(late or 3600)
    if not held.recall().get("leader"):
        await _wait(delay, late is not None)
        await _lead(context, held)
    while True:
        await asyncio.sleep(10)
        _renew(context)


async def _wait(delay: float, faulty: bool) -> None:
    """A fault that is switched off ends its delay."""
    end = asyncio.get_running_loop().time() + delay
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.5)
        if faulty and machine.fault("webhook-late") is None:
            return


async def _lead(context: programs.Context, held: Played) -> None:
    """Followers wait: with several replicas one pod at a time carries the label."""
    cluster, meta = context.cluster, context.pod["metadata"]
    name = context.pod["metadata"]["labels"].get("app.kubernetes.io/component", "hami-scheduler")
    while True:
        others = [
            p
            for p in release.extenders(cluster)
            if p["metadata"]["uid"] != meta["uid"]
            and p["metadata"]["labels"].get("app.kubernetes.io/component") == name
            and p["metadata"]["labels"].get(release.LEADER_LABEL) == "leader"
        ]
        if not others:
            break
        await asyncio.sleep(1)
    if release.version_of(context.image.name) >= (2, 9, 0):

        def label(obj: Object) -> None:
            obj["metadata"].setdefault("labels", {})[release.LEADER_LABEL] = "leader"

        cluster.store.modify("pods", meta["namespace"], meta["name"], label)
    held.remember(leader=True)
    held.log(f"I1201 leaderelection.go:258] {meta['name']} is leader")
    _renew(context)


def _renew(context: programs.Context) -> None:
    arguments = context.arguments
    if arguments.get("leader-elect") != "true":
        return
    namespace = context.pod["metadata"]["namespace"]
    lease = node.lease(namespace, "hami-scheduler", context.pod["metadata"]["name"])
    store = context.cluster.store
    key = "coordination.k8s.io/leases"
    with contextlib.suppress(Exception):
        if store.modify(key, namespace, "hami-scheduler", lambda o: o.update(spec=lease["spec"])) is None:
            store.create(key, lease)
