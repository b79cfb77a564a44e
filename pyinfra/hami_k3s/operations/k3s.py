"""The k3s service: started with what is configured now, and really ready."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster, trusted
from hami_k3s.difference import NOT_THERE, NOTED, Difference, noted
from hami_k3s.facts.k3s import BINARY, CONTAINERD, K3s, K3sState
from hami_k3s.operations import authority
from hami_k3s.remote import run
from hami_k3s.waits import Look, until

# Lines of the journal that tell why k3s does not get ready.
FATAL = (
    "default runtime nvidia was not found|address already in use|toml: |cgroup v1|"
    "level=fatal|no default routes found|failed to find interface|Failed to validate connection to cluster"
)
# k3s repeats these for ever: (pattern, what to do).
HOPELESS = (
    (
        "token CA hash does not match|failed to normalize|token is not valid|[Nn]ot authorized|Unauthorized",
        "k3s uses another token than its cluster's, or its data are another cluster's. Remove `token` and `token-file` "
        "from /etc/rancher/k3s/config.yaml, later drop-ins and the unit's environment; data of another cluster go with "
        "reset.py and --data reset_k3s=true",
    ),
    (
        "Node password rejected",
        "a node of this name has joined before with another secret. If that machine is gone, on a server: "
        "kubectl delete node NAME; kubectl -n kube-system delete secret NAME.node-password.k3s",
    ),
)
PATIENCE = 5  # seconds before the journal of a service that is not up is read


def reading(host: Host) -> dict[str, Any]:
    """The arguments of the fact K3s on this host: what only a member of a cluster has is read only there."""
    return {"api": True, "unit": cluster.unit(host), "member": cluster.name(host) is not None}


def state_of(host: Host, fresh: bool = False) -> K3sState:
    """k3s on this host."""
    read = trusted.fresh if fresh else trusted.read
    return read(host, K3s, **reading(host))


def service_differences(state: K3sState, unit: str = "k3s") -> list[Difference]:
    """Of the unit: does it run, with the files that are there now, and after a reboot too?"""
    found = []
    if state.active != "active":
        found.append(Difference("service", f"{unit}.service", state.active or NOT_THERE, "active"))
    elif state.stale:
        found.append(
            Difference("service", f"{unit}.service", "runs with an older configuration", "restarted")
        )
    if not state.enabled:
        found.append(Difference("service", f"{unit}.service", "not enabled", "enabled"))
    return found


def start(unit: str, state: K3sState) -> str:
    """Shell that runs the service with the files that are there now."""
    steps = []
    if not state.enabled:
        steps.append(f"systemctl enable --quiet {unit}.service")  # reloads the units as well
    elif state.need_reload:
        steps.append("systemctl daemon-reload")
    if state.active != "active" or state.stale:
        # Not blocking: a k3s that cannot start would hold systemctl for ever. `ready` waits, with a limit.
        reset = f"{{ systemctl reset-failed {unit}.service 2>/dev/null; true; }}"
        steps.append(f"{reset} && systemctl restart --no-block {unit}.service")
    return " && ".join(steps)


@operation()
def service() -> Generator[PyinfraCommand]:
    """
    k3s enabled and running with the files that are there now; restarted only when the running process has older ones.

    **Example:**

    .. code:: python

        k3s.service(name="k3s runs with its configuration")
    """
    state, unit = state_of(host), cluster.unit(host)
    if not noted(host, service_differences(state, unit)) and not foreseen(host):
        host.noop("k3s runs with its present configuration")
        return
    yield StringCommand(start(unit, replace(state, stale=True) if foreseen(host) else state))


def foreseen(host: Host) -> bool:
    """In a dry run: will what the operations before this one would change have k3s restarted?"""
    return not cluster.executing(host) and any(map(_restarts, NOTED[host.name]))


def _restarts(row: Difference) -> bool:
    """Will this difference, once it is gone, have k3s restarted? (k3s-inputs)"""
    folders = row.what.startswith(("/etc/rancher/k3s/", "/etc/systemd/system/k3s"))
    return (folders or row.what in (BINARY, authority.FILE)) and not row.found.startswith("mode ")


def not_ready(state: K3sState, version: str, gpu: bool = True, unit: str = "k3s") -> str | None:
    """Why k3s is not ready, or None when it is: the API answers, the node is Ready with this version, and on a host with
    a card NVIDIA's runtime is containerd's default in the config that k3s rendered."""
    if state.active != "active":
        return f"{unit}.service is {state.active or 'unknown'} ({state.sub or 'no state'})"
    if state.stale:
        return "k3s runs with an older configuration"
    if state.api != "ok":
        return "the API server does not answer yet"
    if state.own is None or not state.own.ready:
        return f"node {state.hostname} is not Ready yet"
    if state.own.kubelet != version:
        return f"the node's kubelet is {state.own.kubelet}, not {version}"
    if gpu and (problem := _no_runtime(state)):
        return problem
    if state.restarts and (state.age_s or 0) < 30:
        return f"k3s was restarted {state.restarts} times and runs for {state.age_s or 0:.0f} s"
    return None


def _no_runtime(state: K3sState) -> str | None:
    if not state.runtime_class:
        return "RuntimeClass nvidia is not there yet"
    if state.containerd is None:
        return f"{CONTAINERD}: {state.containerd_error or 'not written yet'}"
    if state.containerd.default_runtime_name != "nvidia" or not state.containerd.runtimes.get("nvidia"):
        return f"containerd's default runtime is {state.containerd.default_runtime_name or 'runc'}, not nvidia ({CONTAINERD})"
    return None


@operation()
def ready(version: str, limit: int, gpu: bool = True) -> Generator[PyinfraCommand]:
    """
    Wait until k3s is ready, with progress, a limit, and the journal's last lines when it is not.

    + version: the release that must run
    + limit: seconds
    + gpu: the host has a card, so NVIDIA's runtime must be containerd's default

    **Example:**

    .. code:: python

        k3s.ready(name="k3s is ready", version="v1.36.2+k3s1", limit=300)
    """
    problem = not_ready(state_of(host), version, gpu, cluster.unit(host))
    if not noted(host, [Difference("ready", "k3s", problem, version)] if problem else []):
        host.noop(f"k3s {version} is ready")
        return
    yield FunctionCommand(wait_ready, (version, limit, gpu), {})


def wait_ready(state: State, host: Host, version: str, limit: int, gpu: bool = True) -> bool:
    """The wait of `ready`. Ends early when k3s crash-loops or says that it will never get there."""
    first: list[int] = []
    unit, begun = cluster.unit(host), time.monotonic()

    def look() -> Look:
        now = state_of(host, fresh=True)
        first.append(now.restarts)
        problem = not_ready(now, version, gpu, unit)
        if problem is None:
            trusted.keep(host, now, K3s, **reading(host))
            return Look("done", f"k3s {version} is ready")
        if now.restarts - first[0] >= 2:
            return Look("failed", f"k3s starts and dies again and again ({now.restarts} restarts): {problem}")
        if now.active != "active" and time.monotonic() - begun > PATIENCE and (line := _hopeless(host, unit)):
            return Look("failed", line)
        return Look("wait", problem)

    def journal() -> str:
        fatal = run(host, f"{_journal(unit)} -n 500 | grep -E {shlex.quote(FATAL)} | tail -n 3").stdout
        last = run(host, f"journalctl -u {unit} -o cat -n 10 --no-pager").stdout
        return "\n".join([fatal, f"last lines of `journalctl -u {unit}`:", last]).strip()

    return until(host, "k3s", limit, look, "k3s_ready_timeout", journal)


def _journal(unit: str) -> str:
    """The journal of the present start alone."""
    start = f"_SYSTEMD_INVOCATION_ID=$(systemctl show {unit}.service -p InvocationID --value)"
    return f"journalctl {start} -o cat --no-pager"


def _hopeless(host: Host, unit: str) -> str | None:
    """The line of the journal after which k3s only repeats itself, and what to do."""
    every = "|".join(pattern for pattern, _ in HOPELESS)
    line = run(host, f"{_journal(unit)} | grep -E {shlex.quote(every)} | tail -n 1").stdout.strip()
    return next(
        (f"{line[-400:]}\n{advice}" for pattern, advice in HOPELESS if re.search(pattern, line)), None
    )
