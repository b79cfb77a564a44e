"""The k3s service: started with what is configured now, and really ready."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.state import StateStage

from hami_k3s import trusted
from hami_k3s.difference import NOT_THERE, NOTED, Difference, noted
from hami_k3s.facts.k3s import BINARY, CONTAINERD, K3s, K3sState
from hami_k3s.operations import authority
from hami_k3s.remote import run
from hami_k3s.waits import Look, until

# Lines of the journal after which waiting is pointless.
FATAL = (
    "default runtime nvidia was not found|address already in use|toml: |cgroup v1|"
    "level=fatal|no default routes found|failed to find interface"
)


@operation()
def service() -> Generator[PyinfraCommand]:
    """
    k3s enabled and running with the files that are there now; restarted only when the running process has older ones.

    **Example:**

    .. code:: python

        k3s.service(name="k3s runs with its configuration")
    """
    state = trusted.read(host, K3s, api=True)
    foreseen = host.state.current_stage == StateStage.Prepare and any(map(_restarts, NOTED[host.name]))
    if not noted(host, service_differences(state)) and not foreseen:
        host.noop("k3s runs with its present configuration")
        return
    if state.need_reload or not state.enabled:
        yield StringCommand("systemctl daemon-reload")
    if not state.enabled:
        yield StringCommand("systemctl enable --quiet k3s.service")
    if state.active != "active" or state.stale or foreseen:
        # Not blocking: a k3s that cannot start would hold systemctl for ever. `ready` waits, with a limit.
        yield StringCommand(
            "systemctl reset-failed k3s.service 2>/dev/null; systemctl restart --no-block k3s.service"
        )


def _restarts(row: Difference) -> bool:
    """Will this difference, once it is gone, have k3s restarted? For dry runs, where it is not gone yet (k3s-inputs)."""
    folders = row.what.startswith(("/etc/rancher/k3s/", "/etc/systemd/system/k3s"))
    return (folders or row.what in (BINARY, authority.FILE)) and not row.found.startswith("mode ")


def service_differences(state: K3sState) -> list[Difference]:
    """Of the unit: does it run, with the files that are there now, and after a reboot too?"""
    found = []
    if state.active != "active":
        found.append(Difference("service", "k3s.service", state.active or NOT_THERE, "active"))
    elif state.stale:
        found.append(Difference("service", "k3s.service", "runs with an older configuration", "restarted"))
    if not state.enabled:
        found.append(Difference("service", "k3s.service", "not enabled", "enabled"))
    return found


def not_ready(state: K3sState, version: str) -> str | None:
    """Why k3s is not ready, or None when it is: the API answers, the node is Ready with this version, and NVIDIA's
    runtime is containerd's default in the config that k3s rendered."""
    if state.active != "active":
        return f"k3s.service is {state.active or 'unknown'} ({state.sub or 'no state'})"
    if state.stale:
        return "k3s runs with an older configuration"
    if state.api != "ok":
        return "the API server does not answer yet"
    if state.own is None or not state.own.ready:
        return f"node {state.hostname} is not Ready yet"
    if state.own.kubelet != version:
        return f"the node's kubelet is {state.own.kubelet}, not {version}"
    if not state.runtime_class:
        return "RuntimeClass nvidia is not there yet"
    if state.containerd is None:
        return f"{CONTAINERD}: {state.containerd_error or 'not written yet'}"
    if state.containerd.default_runtime_name != "nvidia" or not state.containerd.runtimes.get("nvidia"):
        return f"containerd's default runtime is {state.containerd.default_runtime_name or 'runc'}, not nvidia ({CONTAINERD})"
    if state.restarts and (state.age_s or 0) < 30:
        return f"k3s was restarted {state.restarts} times and runs for {state.age_s or 0:.0f} s"
    return None


@operation()
def ready(version: str, limit: int) -> Generator[PyinfraCommand]:
    """
    Wait until k3s is ready, with progress, a limit, and the journal's last lines when it is not.

    + version: the release that must run
    + limit: seconds

    **Example:**

    .. code:: python

        k3s.ready(name="k3s is ready", version="v1.36.2+k3s1", limit=300)
    """
    problem = not_ready(trusted.read(host, K3s, api=True), version)
    if not noted(host, [Difference("ready", "k3s", problem, version)] if problem else []):
        host.noop(f"k3s {version} is ready")
        return
    yield FunctionCommand(wait_ready, (version, limit), {})


def wait_ready(state: State, host: Host, version: str, limit: int) -> bool:
    """The wait of `ready`. Ends early when k3s crash-loops."""
    first: list[int] = []

    def look() -> Look:
        now = host.get_fact(K3s, api=True)
        first.append(now.restarts)
        problem = not_ready(now, version)
        if problem is None:
            return Look("done", f"k3s {version} is ready")
        if now.restarts - first[0] >= 2:
            return Look("failed", f"k3s starts and dies again and again ({now.restarts} restarts): {problem}")
        return Look("wait", problem)

    def journal() -> str:
        fatal = run(
            host, f"journalctl -u k3s -o cat -n 200 --no-pager | grep -E '{FATAL}' | tail -n 3"
        ).stdout
        last = run(host, "journalctl -u k3s -o cat -n 10 --no-pager").stdout
        return f"{fatal}\nlast lines of `journalctl -u k3s`:\n{last}".strip()

    return until(host, "k3s", limit, look, "k3s_ready_timeout", journal)
