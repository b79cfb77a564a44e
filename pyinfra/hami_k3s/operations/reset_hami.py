"""HAMi leaves a cluster, or one node of it; and the cluster forgets a node that left."""

from __future__ import annotations

import shlex
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster, leftover, traces, transient, trusted
from hami_k3s.facts.hami import fullname
from hami_k3s.facts.helm import AT_WORK, KUBECONFIG
from hami_k3s.facts.kubernetes import CACHE, KUBECTL
from hami_k3s.facts.reset import ANNOTATIONS, Leftovers, Reset
from hami_k3s.operations.binary import path
from hami_k3s.proof.pods import OWNER
from hami_k3s.remote import run
from hami_k3s.settings import Settings
from hami_k3s.templating import render
from hami_k3s.waits import fail


def read(settings: Settings) -> Leftovers:
    """What is left of this host, as long as nothing changes."""
    where = {"release": settings.hami_release, "namespace": settings.hami_namespace}
    return trusted.read(host, Reset, **where, owner=OWNER, unit=cluster.unit(host))


def whole(state: Leftovers) -> bool:
    """Is the whole cluster of this host in this run, and none of its hosts stopped?"""
    members = cluster.members(host)
    return len(state.nodes) <= len(members) and all(one in host.state.active_hosts for one in members)


@operation()
def hami(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Remove verify's namespaces, HAMi's release and what helm does not own (Secret, Lease): once for a cluster, when all of
    its hosts are in this run.

    + settings: the host's settings

    **Example:**

    .. code:: python

        reset.hami(name="HAMi is gone", settings=settings)
    """
    state = read(settings)
    together = whole(state)
    if leftover.goes_with_k3s(settings, together):
        host.noop("it goes with k3s")
        return
    if not state.api and state.database and not settings.reset_k3s:
        reason = "k3s does not answer, so HAMi cannot be removed from it: `systemctl status k3s` says why. "
        yield FunctionCommand(
            fail, (f"{reason}To remove k3s with everything in it: --data reset_k3s=true",), {}
        )
        return
    if not state.hami or not together or not cluster.elected(host):
        host.noop("nothing of HAMi is there" if together else "it stays for the other hosts of its cluster")
        return
    text = render(
        "scripts/reset-hami.sh",
        release=settings.hami_release,
        namespace=settings.hami_namespace,
        installed="release" in state.hami,
        helm=path("helm", settings.helm_version),
        library=traces.LIBRARY,
        kubeconfig=KUBECONFIG,
        cache=CACHE,
        at_work=AT_WORK,
        owner=OWNER,
        fullname=fullname(settings.hami_release),
        limit=settings.hami_ready_timeout,
    )
    limit = settings.hami_ready_timeout + 120
    yield FunctionCommand(
        transient.work, ("reset-hami", "Removing HAMi", text, limit, "hami_ready_timeout"), {}
    )


@operation()
def node(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Remove HAMi's annotations and label from this host's node, and with `reset_force` the GPU pods on it.

    + settings: the host's settings

    **Example:**

    .. code:: python

        reset.node(name="The node is an ordinary one", settings=settings)
    """
    state = read(settings)
    pods = state.pods if settings.reset_force and leftover.to_remove(state, settings, whole(state)) else ()
    if leftover.goes_with_k3s(settings, whole(state)) or not (state.marks or pods):
        host.noop("nothing of HAMi is on the node")
        return
    yield FunctionCommand(unmark, (settings, state), {})


def unmark(state: State, host: Host, settings: Settings, found: Leftovers) -> bool:
    """Through a server of the cluster. False, with what kubectl said, when something could not be removed."""
    pods = [one.split(" ")[0].split("/") for one in found.pods or ()]
    text = render(
        "scripts/reset-node.sh",
        node=found.node,
        namespace=settings.hami_namespace,
        cache=CACHE,
        pods=pods,
        annotations=[f"{name}-" for name in ANNOTATIONS],
    )
    result = cluster.ask(host, "sh -s 2>&1", stdin=text, timeout=120 + 60 * len(pods))
    return result.ok or fail(state, host, f"the node could not be cleared:\n{result.stdout}{result.stderr}")


def others(host: Host) -> list[Host]:
    """The other servers of this host's cluster that answer, those that are not in this run first."""
    known = [one for one in cluster.servers(host) if one != cluster.real(host)]
    known.sort(key=lambda one: one in host.state.active_hosts)
    return [one for one in known if cluster.answers(one)]


def forget(state: State, host: Host, node: str) -> bool:
    """The cluster that goes on forgets this node. False, with the command for it, when none of its servers did."""
    delete = f"{KUBECTL} delete node {shlex.quote(node)} --ignore-not-found"
    if any(run(server, delete).ok for server in others(host)):
        return True
    return fail(state, host, f"k3s is gone here, and its cluster still has the node. On a server: {delete}")
