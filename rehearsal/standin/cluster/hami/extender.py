"""The scheduler pod's two programs: kube-scheduler and HAMi's extender, which elects itself leader after a while."""

import asyncio
import contextlib
import random
from typing import Any

from .. import clock, containerd, machine, node
from ..kubelet import programs
from ..kubelet.container import Played
from ..problem import ProblemError
from . import release

Object = dict[str, Any]
LEASE = 15.0  # s
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
    while True:
        _lead(context, held)
        await asyncio.sleep(2)


async def _wait(delay: float, faulty: bool) -> None:
    """A fault that is switched off ends its delay."""
    end = asyncio.get_running_loop().time() + delay
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.5)
        if faulty and machine.fault("webhook-late") is None:
            return


def _lead(context: programs.Context, held: Played) -> None:
    """Followers wait: of several replicas the one that holds the Lease carries the label, and loses it with the Lease."""
    leads = context.arguments.get("leader-elect") != "true" or _holds(context)
    meta = context.pod["metadata"]
    labelled = meta["labels"].get(release.LEADER_LABEL) == "leader"
    if leads != labelled and release.version_of(context.image.name) >= (2, 9, 0):

        def label(obj: Object) -> None:
            obj["metadata"].setdefault("labels", {}).pop(release.LEADER_LABEL, None)
            if leads:
                obj["metadata"]["labels"][release.LEADER_LABEL] = "leader"

        context.cluster.store.modify("pods", meta["namespace"], meta["name"], label)
    if leads and not held.recall().get("leader"):
        held.log(f"I1201 leaderelection.go:258] {meta['name']} is leader")
    if leads != bool(held.recall().get("leader")):
        held.remember(leader=leads)


def _holds(context: programs.Context) -> bool:
    """Takes the Lease when it is free or old, and renews it."""
    meta, store = context.pod["metadata"], context.cluster.store
    key, name = "coordination.k8s.io/leases", "hami-scheduler"

    def take(obj: Object) -> None:
        spec = obj["spec"]
        if spec["holderIdentity"] == meta["name"] or clock.age(spec["renewTime"]) > LEASE:
            spec.update(holderIdentity=meta["name"], renewTime=clock.micro(), leaseDurationSeconds=int(LEASE))

    with contextlib.suppress(ProblemError):
        if store.modify(key, meta["namespace"], name, take) is None:
            store.create(key, node.lease(meta["namespace"], name, meta["name"]))
    found = store.get(key, meta["namespace"], name)
    return found is not None and found["spec"]["holderIdentity"] == meta["name"]
