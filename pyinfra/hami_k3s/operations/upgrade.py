"""The upgrade: refused as a whole or not at all, then servers, HAMi's release, nodes."""

from __future__ import annotations

import sys
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster, command_line, trusted, upgrade_plan
from hami_k3s.facts.binary import Binary
from hami_k3s.facts.helm import Release
from hami_k3s.facts.k3s import K3sState
from hami_k3s.operations import binary, drain, helm, k3s, roll, window
from hami_k3s.operations import target as targets
from hami_k3s.operations.target import Target
from hami_k3s.waits import Look, complain, fail, until

# What was found on each host before anything was changed, by its name.
_problems: dict[str, list[str]] = {}


def _drain_command() -> str:
    return command_line.shown([*sys.argv, "--data", "upgrade_drain=true"])


def problems(host: Host, target: Target) -> list[str]:
    """Why this host cannot be upgraded, or not without being asked. What an API that is silent hides is asked again later,
    in the node's own window."""
    want, state = target.settings, k3s.state_of(host)
    if state.own is None:
        return _not_a_node(host, target, state)
    release = trusted.read(host, Release, **target.release)
    server = None if cluster.is_agent(host) else state.own.kubelet
    if refused := upgrade_plan.k3s_refusal(server, want.k3s_version, want.k3s_channel_url):
        return [refused]
    if want.upgrade_drain or not (why := targets.reasons(host, target, state, release)):
        return []
    node = state.hostname or ""
    pods = drain.users(host, node)
    if pods is None:
        return ["the API does not say which pods run here; run the same command again"]
    return [upgrade_plan.pods_in_the_way(node, why, pods, _drain_command())] if pods else []


def _not_a_node(host: Host, target: Target, state: K3sState) -> list[str]:
    if not state.enabled:
        return ["there is no k3s here to be upgraded: deploys/gpu_node.py installs it, at these versions"]
    if state.nodes is not None:
        return [f"{state.hostname} is no node of its cluster: deploys/gpu_node.py brings it there"]
    if cluster.is_agent(host) or _begun(host, target):
        return []  # its server says why; or an interrupted upgrade goes on
    return [f"the API server does not answer: `journalctl -u {cluster.unit(host)}` says why"]


def _begun(host: Host, target: Target) -> bool:
    """Is the link in /usr/local/bin the wanted one already?"""
    places = binary.k3s(target.settings).places
    return trusted.read(host, Binary, **places).link == places["versioned"]


@operation()
def running(target: Target) -> Generator[PyinfraCommand]:
    """
    Start a k3s that an interrupted upgrade left stopped before it had changed anything.

    + target: what the host shall be

    **Example:**

    .. code:: python

        upgrade.running(name="k3s runs", target=target)
    """
    state, unit = k3s.state_of(host), cluster.unit(host)
    if not state.enabled or state.active in ("active", "activating") or _begun(host, target):
        host.noop("k3s runs, or the upgrade starts it")
        return
    yield StringCommand(f"systemctl start --no-block {unit}.service")
    yield FunctionCommand(_answers, (target.settings.k3s_ready_timeout,), {})


def _answers(state: State, host: Host, limit: int) -> bool:
    def look() -> Look:
        now = k3s.state_of(host, fresh=True)
        up = now.active == "active" and now.own is not None and now.own.ready
        return (
            Look("done", "k3s runs") if up else Look("wait", f"k3s is {now.active}, its node not Ready yet")
        )

    return until(host, "k3s", limit, look, "k3s_ready_timeout")


@operation()
def look(target: Target) -> Generator[PyinfraCommand]:
    """
    Find out on every host whether it may be upgraded. Changes nothing.

    + target: what the host shall be

    **Example:**

    .. code:: python

        upgrade.look(name="What would be upgraded", target=target)
    """
    _problems[host.name] = problems(host, target)
    host.noop("looked at")
    yield from ()


@operation()
def allowed(target: Target) -> Generator[PyinfraCommand]:
    """
    Stop this host when it may not be upgraded, or when another one of its cluster may not. Changes nothing.

    + target: what the host shall be

    **Example:**

    .. code:: python

        upgrade.allowed(name="May be upgraded", target=target)
    """
    if own := _problems.get(host.name):
        yield FunctionCommand(fail, ("\n".join([*own, "Nothing was changed on this host."]),), {})
        return
    if cluster.executing(host) and (others := _refused(cluster.real(host))):
        text = f"{', '.join(others)} of its cluster cannot be upgraded: nothing was changed on this host"
        yield FunctionCommand(fail, (text,), {})
        return
    host.noop("may be upgraded")


def _refused(host: Host) -> list[str]:
    others = [one for one in cluster.members(host) if one != host]
    return [one.name for one in others if _problems.get(one.name) or one in host.state.failed_hosts]


@operation()
def servers(target: Target) -> Generator[PyinfraCommand]:
    """
    The servers of a cluster, one at a time, each with a copy of what k3s keeps first.

    + target: what the host shall be

    **Example:**

    .. code:: python

        upgrade.servers(name="Servers", target=target)
    """
    if cluster.name(host) is None or cluster.is_agent(host):
        host.noop("not a server of a cluster")
        return
    if cluster.executing(host) and (why := _servers_lost(cluster.real(host))):
        yield FunctionCommand(fail, (why,), {})
        return
    if not targets.k3s_differences(host, target):
        host.noop(f"k3s {target.settings.k3s_version} runs")
        return
    yield FunctionCommand(window.of_server, (target, _drain_command()), {})


def _servers_lost(host: Host) -> str:
    lost = [one.name for one in cluster.servers(host) if one in host.state.failed_hosts]
    return f"not started, this host is as it was: server {', '.join(lost)} failed" if lost else ""


@operation()
def release(target: Target) -> Generator[PyinfraCommand]:
    """
    HAMi's release, once a cluster, with the kube-scheduler of the new server; the device plugin's pods stay what they are
    when the chart is another one.

    + target: what the host shall be

    **Example:**

    .. code:: python

        upgrade.release(name="HAMi's release", target=target)
    """
    if cluster.name(host) is None or cluster.is_agent(host):
        host.noop("not a server of a cluster")
        return
    if stopped := roll.not_started(host):
        yield FunctionCommand(fail, (stopped,), {})
        return
    found = trusted.read(host, Release, **target.release)
    now = upgrade_plan.Now(chart=found.chart_version)
    stay = upgrade_plan.must_stay(now, found.values, target.settings)
    want = upgrade_plan.staying(target.settings) if stay else target.settings
    yield from helm.hami._inner(want, target.origin)


@operation()
def nodes(target: Target) -> Generator[PyinfraCommand]:
    """
    Every node in its turn: out of service, upgraded, back in service, its claims looked at. A failure ends the turns.

    + target: what the host shall be

    **Example:**

    .. code:: python

        upgrade.nodes(name="Nodes", target=target)
    """
    if stopped := roll.not_started(host):
        yield FunctionCommand(fail, (stopped,), {})
        return
    if not todo(host, target):
        host.noop("this node is as it should be")
        return
    what = window.of_host if cluster.name(host) is None else window.of_node
    yield FunctionCommand(what, (target, _drain_command()), {})


def todo(host: Host, target: Target) -> bool:
    """Is there anything to be done on this node in its own window?"""
    alone, state = cluster.name(host) is None, k3s.state_of(host)
    if targets.toolkit_differences(host, target) or targets.marked(state):
        return True
    if (alone or cluster.is_agent(host)) and targets.k3s_differences(host, target):
        return True
    release = trusted.read(host, Release, **target.release)
    if alone and not helm.settled(release, target.settings, target.origin):
        return True
    return bool(targets.reasons(host, target, state, release))


@operation()
def final(target: Target) -> Generator[PyinfraCommand]:
    """
    The device plugin's pods may be replaced by their DaemonSet again, when none is left to be.

    + target: what the host shall be

    **Example:**

    .. code:: python

        upgrade.final(name="HAMi's usual values", target=target)
    """
    if cluster.name(host) is None or cluster.is_agent(host):
        host.noop("not a server of a cluster")
        return
    if cluster.executing(host):
        if stopped := roll.of(host).stopped:
            host.noop(f"the upgrade stopped at {stopped}")
            return
        found = trusted.read(host, Release, **target.release)
        now = upgrade_plan.Now(chart=found.chart_version)
        if upgrade_plan.must_stay(now, found.values, target.settings):
            left = targets.plugins(host, target)
            if left is None or not left.settled or left.older:
                names = ", ".join(sorted(left.older)) if left else "unknown"
                complain(host, f"nodes with HAMi's older device plugin, not part of this run: {names}")
                host.noop("the device plugin's pods stay what they are")
                return
    yield from helm.hami._inner(target.settings, target.origin)
