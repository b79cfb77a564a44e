"""The steps of one node's upgrade, each True when it is done. Each looks at what is there: an interrupted one is finished."""

from __future__ import annotations

import shlex

from pyinfra.api import Host, State

from hami_k3s import cluster, trusted, upgrade_plan
from hami_k3s.facts import batch
from hami_k3s.facts.binary import Binary
from hami_k3s.facts.kubernetes import KUBECTL, items
from hami_k3s.operations import binary, drain, files, hami, helm, k3s, toolkit
from hami_k3s.operations.perform import perform
from hami_k3s.operations.target import Target, k3s_differences, plugins, toolkit_differences
from hami_k3s.proof import standing
from hami_k3s.releases import numbers
from hami_k3s.templating import render
from hami_k3s.transient import work
from hami_k3s.waits import Look, complain, fail, until

SERVER, KEEP = "/var/lib/rancher/k3s/server", 3
SNAPSHOT = "hami-k3s-upgrade"


def emptied(state: State, host: Host, target: Target, node: str, why: list[str], command: str) -> bool:
    """Cordoned, and without GPU pods where that is needed; back in service after a failure."""
    if not drain.cordon(state, host, node):
        return False
    if not why:
        return True
    pods = drain.users(host, node)
    if pods is None:
        done = fail(state, host, "the API does not say which pods run here")
    elif not pods:
        return True
    elif target.settings.upgrade_drain:
        host.log(f"    {node}: {len(pods)} GPU pods are evicted: {'; '.join(why)}")
        want = target.settings
        where = (want.hami_release, want.hami_namespace, want.hami_ready_timeout)
        done = hami.wait_redirects(state, host, *where) and drain.evict(state, host, want, node)
    else:
        done = fail(state, host, upgrade_plan.pods_in_the_way(node, why, pods, command))
    if not done:
        drain.uncordon(state, host, node)
        complain(
            host, "toolkit, k3s and device plugin of this host are as they were, and its node is in service"
        )
    return done


def with_toolkit(state: State, host: Host, target: Target) -> bool:
    """The toolkit's packages at their version, held."""
    want = target.settings
    if not toolkit_differences(host, target):
        return True
    body = toolkit.packages._inner(
        url=target.url, version=want.toolkit_version, limit=want.toolkit_timeout, origin=target.origin
    )
    return perform(state, host, body)


def with_k3s(state: State, host: Host, target: Target, snapshot: bool) -> bool:
    """k3s' files and release; on a server with a copy of its state first; ready again.

    + snapshot: take etcd's; SQLite's copy is always made
    """
    want, version = target.settings, target.settings.k3s_version
    trusted.forget(host)
    before = k3s.state_of(host)
    if k3s_differences(host, target):
        if not perform(state, host, files.owned._inner(target.contents, target.registries)):
            return False
        places = binary.k3s(want).places
        if trusted.fresh(host, Binary, **places).link != places["versioned"]:
            script = render(
                "scripts/k3s-switch.sh",
                binary=places["versioned"],
                public=places["public"],
                unit=cluster.unit(host),
                server=SERVER,
                keep=KEEP,
                snapshot=SNAPSHOT if snapshot else "",
                before=before.own.kubelet if before.own else "unknown",
            )
            limit = 2 * want.k3s_ready_timeout
            if not work(state, host, "k3s-switch", f"k3s {version}", script, limit, "k3s_ready_timeout"):
                return False
        elif not perform(state, host, k3s.service._inner()):
            return False
    if not k3s.wait_ready(state, host, version, want.k3s_ready_timeout, target.gpu):
        return False
    trusted.forget(host)
    return True


def with_plugin(state: State, host: Host, target: Target, node: str) -> bool:
    """The device plugin's pod on this node is one of the DaemonSet's present template, and ready."""
    deleted: set[str] = set()
    space = shlex.quote(target.release["namespace"])

    def look() -> Look:
        found = plugins(host, target)
        if found is None or not found.settled:
            return Look("wait", "the API does not answer, or its controllers have not seen the new template")
        if pod := found.older.get(node):
            if pod not in deleted:
                deleted.add(pod)
                cluster.ask(host, f"{KUBECTL} -n {space} delete pod --wait=false {shlex.quote(pod)}")
            return Look("wait", f"{pod} is replaced")
        path = f"{KUBECTL} -n {space} get pods -l app.kubernetes.io/component=hami-device-plugin -o json"
        pods = items(cluster.ask(host, f"{path} --field-selector spec.nodeName={shlex.quote(node)}").stdout)
        here = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
        ready = [
            one
            for one in here
            if all(c.get("ready") for c in one.get("status", {}).get("containerStatuses") or [{}])
        ]
        return (
            Look("done", "the device plugin is new")
            if ready
            else Look("wait", "the new device plugin is not ready")
        )

    return until(host, "Device plugin", target.settings.hami_ready_timeout, look, "hami_ready_timeout")


def with_release(state: State, host: Host, target: Target, stay: bool) -> bool:
    """HAMi's release with this run's chart, values and kube-scheduler.

    + stay: the plugin's pods stay what they are until their node's window
    """
    want = upgrade_plan.staying(target.settings) if stay else target.settings
    return perform(state, host, helm.hami._inner(want, target.origin))


def works(state: State, host: Host, target: Target) -> bool:
    """HAMi is ready on this node and the claims that need no pods hold."""
    if not target.gpu:
        return True
    if not ready(state, host, target):
        return False
    want = target.settings
    lost = standing.hold(host, want, want.hami_ready_timeout, "hami_ready_timeout")
    return not lost or fail(state, host, f"after the upgrade not true of this node: {'; '.join(lost)}")


def server_first(state: State, host: Host, target: Target) -> bool:
    """An agent is never newer than its server."""
    said = batch.mapping(cluster.ask(host, f"{KUBECTL} get --raw /version").stdout).get("gitVersion")
    if said is None:
        return fail(state, host, f"not started, this host is as it was: {cluster.silence(host)}")
    if numbers(str(said)) < numbers(target.settings.k3s_version):
        reason = (
            f"its server runs {said}, older than {target.settings.k3s_version}: servers are upgraded first"
        )
        return fail(state, host, f"not started, this host is as it was: {reason}. Leave --limit out")
    return True


def ready(state: State, host: Host, target: Target) -> bool:
    """HAMi's own gates on this node."""
    want = target.settings
    where = (want.hami_release, want.hami_namespace, want.hami_values, want.hami_ready_timeout)
    return hami.wait_ready(state, host, *where)


def out_of_service(host: Host, node: str) -> bool:
    """Say how a node was left after a failure."""
    complain(
        host,
        f"node {node} stays out of service (cordoned); the same command finishes it. By hand: kubectl uncordon {node}, "
        f"kubectl annotate node {node} {drain.MARK}-",
    )
    return False
