"""What is done to one node while it has its turn."""

from __future__ import annotations

from pyinfra.api import Host, State

from hami_k3s import cluster, trusted, upgrade_plan
from hami_k3s.facts.helm import Release
from hami_k3s.operations import drain, k3s, roll, steps
from hami_k3s.operations.target import Target, now, reasons
from hami_k3s.waits import fail


def of_node(state: State, host: Host, target: Target, command: str) -> bool:
    """A node of a cluster: out of service, toolkit, k3s on an agent, device plugin, back in service, claims.

    + command: what to type to have GPU pods evicted
    """
    want = target.settings
    places = want.upgrade_parallel
    if not roll.enter(host, places, target.limit * len(cluster.members(host))):
        return False
    done = False
    try:
        done = steps.server_first(state, host, target) and _node(state, host, target, command)
    finally:
        roll.leave(host, done)
    return done


def _node(state: State, host: Host, target: Target, command: str) -> bool:
    trusted.forget(host)
    found, agent = k3s.state_of(host), cluster.is_agent(host)
    node, release = found.hostname or "", trusted.fresh(host, Release, **target.release)
    if release.status is None:
        return fail(state, host, "not started, this host is as it was: the API does not answer")
    if not steps.emptied(state, host, target, node, reasons(host, target, found, release), command):
        return False
    done = (
        steps.with_toolkit(state, host, target)
        and (not agent or steps.with_k3s(state, host, target, False))
        and (not target.gpu or steps.with_plugin(state, host, target, node))
        and (not target.gpu or steps.ready(state, host, target))
    )
    if not done:
        return steps.out_of_service(host, node)
    return drain.uncordon(state, host, node) and steps.works(state, host, target)


def of_server(state: State, host: Host, target: Target, command: str) -> bool:
    """A server of a cluster: k3s alone, with a copy of its state first; emptied first if it has a card and must be."""
    if not roll.enter(host, 1, target.limit * len(cluster.servers(host))):
        return False
    done = False
    try:
        done = _server(state, host, target, command)
    finally:
        roll.leave(host, done)
    return done


def _server(state: State, host: Host, target: Target, command: str) -> bool:
    trusted.forget(host)
    found, own = k3s.state_of(host), roll.of(host)
    node = found.hostname or ""
    kubelet = upgrade_plan.Now(found.own.kubelet if found.own is not None else None)
    why = upgrade_plan.drains(kubelet, target.settings) if target.gpu else []
    if why and not steps.emptied(state, host, target, node, why, command):
        return False
    done = steps.with_k3s(state, host, target, not own.copied)
    own.copied |= done
    if not why:
        return done
    return drain.uncordon(state, host, node) if done else steps.out_of_service(host, node)


def of_host(state: State, host: Host, target: Target, command: str) -> bool:
    """A host without a cluster: everything, in one window. HAMi's release comes first with a plugin that stays what it is,
    and last with the kube-scheduler of the new server: in between the node is out of service, and helm's pods with it."""
    alone = sum(1 for one in host.state.inventory if cluster.name(one) is None)
    if not roll.enter(host, target.settings.upgrade_parallel, target.limit * alone):
        return False
    done = False
    try:
        done = _host(state, host, target, command)
    finally:
        roll.leave(host, done)
    return done


def _host(state: State, host: Host, target: Target, command: str) -> bool:
    trusted.forget(host)
    found = k3s.state_of(host)
    if found.own is None:  # an interrupted upgrade's k3s, which has not come up
        if not steps.with_k3s(state, host, target, True):
            return False
        found = k3s.state_of(host)
    node, release = found.hostname or "", trusted.fresh(host, Release, **target.release)
    why = reasons(host, target, found, release)
    pods = drain.users(host, node) if why else ()
    if release.status is None or pods is None:
        return fail(state, host, "not started, this host is as it was: the API does not answer")
    if pods and not target.settings.upgrade_drain:
        return fail(state, host, upgrade_plan.pods_in_the_way(node, why, pods, command))
    stay = target.gpu and upgrade_plan.must_stay(now(found, release, target), release.values, target.settings)
    if stay and not steps.with_release(state, host, target, True):
        return False
    if not steps.emptied(state, host, target, node, why, command):
        return False
    done = (
        steps.with_toolkit(state, host, target)
        and steps.with_k3s(state, host, target, True)
        and (not stay or steps.with_plugin(state, host, target, node))
    )
    if not done:
        return steps.out_of_service(host, node)
    return (
        drain.uncordon(state, host, node)
        and steps.with_release(state, host, target, False)
        and steps.works(state, host, target)
    )
