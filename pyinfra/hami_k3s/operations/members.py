"""The servers of a cluster that has several: founded once, joined and restarted one at a time, so that etcd keeps its quorum."""

from __future__ import annotations

from collections.abc import Generator
from weakref import WeakSet

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster
from hami_k3s.difference import Difference, noted
from hami_k3s.facts.k3s import CLUSTER_FILE, K3sState
from hami_k3s.operations import files, join
from hami_k3s.operations.k3s import foreseen, not_ready, service_differences, start, state_of, wait_ready
from hami_k3s.remote import run
from hami_k3s.templating import render
from hami_k3s.waits import Look, fail, until

# Servers that have been through the operation in this run, however it ended.
_went: WeakSet[Host] = WeakSet()
HAS_DATA = "test -s /var/lib/rancher/k3s/server/tls/server-ca.crt"


def member(state: K3sState) -> bool:
    """Does this server belong to its cluster already, as its founder or by joining?"""
    return state.data and state.cluster_file is not None


@operation()
def server(version: str, limit: int, gpu: bool = False) -> Generator[PyinfraCommand]:
    """
    This server is a member of its cluster and ready. What has to be changed is changed on one server at a time.

    + version: the release that must run
    + limit: seconds for this server, its turn not counted
    + gpu: the host has a card, so NVIDIA's runtime must be containerd's default

    **Example:**

    .. code:: python

        members.server(name="Servers, one at a time", version="v1.36.2+k3s1", limit=300)
    """
    state = state_of(host)
    rows = service_differences(state)
    if not member(state):
        rows.append(Difference("cluster", cluster.name(host) or "", "no member", "member"))
    elif problem := not_ready(state, version, gpu):
        rows.append(Difference("ready", "k3s", problem, version))
    if not noted(host, rows) and not foreseen(host):
        if cluster.executing(host):
            _went.add(cluster.real(host))
        host.noop(f"k3s {version} is ready")
        return
    yield FunctionCommand(bring_up, (version, limit, gpu), {})


def bring_up(state: State, host: Host, version: str, limit: int, gpu: bool) -> bool:
    """Found or join the cluster if that has not been done, then run k3s with what is configured, and wait for it."""
    if not _turn(host, limit):
        _went.add(host)
        return False
    try:
        now = state_of(host, fresh=True)
        if not member(now) and not _become(state, host, now, limit):
            return False
        now = state_of(host, fresh=True)
        started = run(host, start("k3s", now)) if service_differences(now) else None
        if started is not None and not started.ok:
            return fail(state, host, f"k3s could not be started: {started.stderr or started.stdout}")
        return wait_ready(state, host, version, limit, gpu)
    finally:
        _went.add(host)
        cluster.turn(host).release()


def _turn(host: Host, limit: int) -> bool:
    """Wait until no other server of the cluster is being changed; the first server goes first."""
    mine = [one for one in cluster.servers(host) if one in host.state.active_hosts]
    before = mine.index(host)

    def look() -> Look:
        if before and mine[before - 1] not in _went:
            return Look("wait", f"{mine[before - 1].name} goes first")
        taken = cluster.turn(host).acquire(blocking=False)
        return Look("done", "its turn") if taken else Look("wait", "another server is being changed")

    return until(host, "turn", limit * max(1, before) + 30, look, "k3s_ready_timeout", pause=0.5)


def _become(state: State, host: Host, now: K3sState, limit: int) -> bool:
    """Decide between founding and joining: only the first server founds, and only where no other one has data."""
    others = [one for one in cluster.servers(host) if one != host]
    reached = [one for one in others if cluster.reach(one)]
    with_data = [one for one in reached if run(one, HAS_DATA).ok]
    alive = next((one for one in with_data if cluster.answers(one)), None)
    if alive is not None:
        return join.join(state, host, alive, now, limit)
    if with_data:
        names = ", ".join(one.name for one in with_data)
        return fail(
            state, host, f"the cluster's data are on {names}, whose API does not answer: nothing to join yet"
        )
    first = cluster.servers(host)[0]
    if first != host and not now.data:
        reason = cluster.why_not(first) if first not in reached else f"{first.name} has not come up"
        return fail(state, host, f"the first server founds the cluster: {reason}")
    if others and not reached:
        names = ", ".join(one.name for one in others)
        reason = (
            f"{names} cannot be reached, and may hold the cluster's data: a second cluster would be founded"
        )
        return fail(state, host, f"{reason}. Bring one of them up, or take them out of the fleet file")
    return files.write(state, host, {CLUSTER_FILE: (render("51-cluster.yaml", server=""), "600")})
