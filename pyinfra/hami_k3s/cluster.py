"""Which hosts of the inventory belong to one cluster, and through which of them its API is asked.

A host says it in its data: `k3s_cluster` names the cluster, `k3s_role` is server (the default) or agent. A host without a
cluster is one of its own. An agent has no credentials for the API: its half of a reading comes from a server.
"""

from __future__ import annotations

import time
from typing import Any
from weakref import WeakKeyDictionary

from gevent.lock import BoundedSemaphore  # type: ignore[import-untyped]
from pyinfra.api import Host
from pyinfra.api.state import StateStage

from hami_k3s.facts.kubernetes import K3S_KUBECTL
from hami_k3s.remote import Result, run

# A server that answered is asked again without another look for this long, in seconds.
TRUSTED_S = 30
_answered: WeakKeyDictionary[Host, float] = WeakKeyDictionary()
_unreachable: WeakKeyDictionary[Host, str] = WeakKeyDictionary()
_turns: dict[str, BoundedSemaphore] = {}
_connecting: dict[str, BoundedSemaphore] = {}


def real(host: Host) -> Host:
    """The host itself, where `host` may be pyinfra's name for whichever host runs now."""
    found: Host = host.state.inventory.get_host(host.name)
    return found


def name(host: Host) -> str | None:
    """The cluster's name; None for a host that is a cluster of its own."""
    found = host.data.get("k3s_cluster")
    return str(found) if found else None


def is_agent(host: Host) -> bool:
    """Is this host an agent of its cluster?"""
    return bool(host.data.get("k3s_role") == "agent")


def members(host: Host) -> list[Host]:
    """Every host of this host's cluster, in the inventory's order, itself included."""
    own = name(host)
    return [real(host)] if own is None else [one for one in host.state.inventory if name(one) == own]


def servers(host: Host) -> list[Host]:
    """The servers of this host's cluster, in the inventory's order."""
    return [one for one in members(host) if not is_agent(one)]


def has_clusters(host: Host) -> bool:
    """Has this inventory a cluster of several hosts? Then hosts wait for each other."""
    return any(name(one) is not None for one in host.state.inventory)


def problem(host: Host) -> str | None:
    """What is wrong with this host's place in its cluster, for hosts that no fleet file has checked."""
    if is_agent(host) and name(host) is None:
        return f"k3s_role: {host.name} is an agent of no cluster; set k3s_cluster"
    if not servers(host):
        return f"k3s_role: cluster {name(host)} has agents and no server; set k3s_role: server for one of its hosts"
    return None


def unit(host: Host) -> str:
    """k3s' systemd unit on this host, without `.service`."""
    return "k3s-agent" if is_agent(host) else "k3s"


def turn(host: Host) -> BoundedSemaphore:
    """Held by the one server of a cluster that is being changed."""
    return _turns.setdefault(name(host) or host.name, BoundedSemaphore(1))


def elected(host: Host) -> bool:
    """Does this host do what is done once for its cluster? It is the first server that this run still has."""
    going = [one for one in servers(host) if one in host.state.active_hosts]
    return bool(going) and going[0] == host


def reach(host: Host) -> bool:
    """Connect to a host that this run does not go on with, or did not start with (--limit)."""
    if host.connected:
        return True
    with _connecting.setdefault(host.name, BoundedSemaphore(1)):
        if not host.connected and host not in _unreachable:
            try:
                host.connect(
                    reason="its cluster is asked through it", show_errors=False, raise_exceptions=True
                )
            except Exception as error:  # a connector may raise anything; this host is only one of several
                _unreachable[host] = str(error) or type(error).__name__
    return host.connected


def answers(server: Host) -> bool:
    """Does this server's API answer? Asked at most every TRUSTED_S seconds while it does."""
    if time.monotonic() - _answered.get(server, -TRUSTED_S) < TRUSTED_S:
        return True
    if not reach(server):
        return False
    if run(server, f"timeout 10 {K3S_KUBECTL} --request-timeout=8s get --raw /readyz >/dev/null").ok:
        _answered[server] = time.monotonic()
        return True
    return False


def api(host: Host) -> Host | None:
    """The host through which this host's cluster is asked: a server itself, for an agent one that answers.

    The agents of a cluster are spread over its servers. None when no server answers; `silence` says why.
    """
    if not is_agent(host):
        return real(host)
    known = servers(host)
    if not known:
        return None
    first = members(host).index(host) % len(known)
    return next((one for one in [*known[first:], *known[:first]] if answers(one)), None)


def why_not(server: Host) -> str:
    """Why this server cannot be asked."""
    if server in _unreachable:
        return f"{server.name} cannot be reached ({_unreachable[server]})"
    if server in server.state.failed_hosts:
        return f"{server.name} failed in this run"
    return f"the API of {server.name} does not answer"


def silence(host: Host) -> str:
    """Why no server of this host's cluster can be asked."""
    return "; ".join(map(why_not, servers(host))) or f"cluster {name(host)} has no server"


def ask(
    host: Host, script: str, stdin: str | None = None, timeout: int = 60, given: dict[str, Any] | None = None
) -> Result:
    """A shell script, with kubectl in it, on a server of this host's cluster. Never raises.

    `given`: connector arguments for a call after the operation has ended; as `remote.run`, for a server itself.
    """
    server = api(host)
    if server is None:
        return Result(False, "", silence(host))
    return run(server, script, stdin, timeout, given if server == host else None)


def executing(host: Host) -> bool:
    """Are operations being executed now, not only prepared?"""
    return host.state.current_stage == StateStage.Execute
