"""HAMi works: gates on what the cluster shows after helm is done."""

from __future__ import annotations

import shlex
import time
from collections.abc import Generator, Mapping
from typing import Any

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster, gates, locked_images, trusted
from hami_k3s.difference import Difference, noted
from hami_k3s.facts.hami import Hami, HamiState
from hami_k3s.facts.kubernetes import KUBECTL
from hami_k3s.releases.lockfile import Image
from hami_k3s.waits import Look, fail, until

# HAMi 2.8 to 2.10 never retries a failed first registration (#2418); restarting the plugin once does.
RETRY_REGISTRATION_AFTER = 75


@operation()
def ready(release: str, namespace: str, values: dict[str, Any], limit: int) -> Generator[PyinfraCommand]:
    """
    Wait until every card of this host is registered and healthy, the webhook redirects GPU pods, and the scheduler is
    the server's version.

    + release: the Helm release
    + namespace: its namespace
    + values: the user's chart values, for split count and memory scaling
    + limit: seconds

    **Example:**

    .. code:: python

        hami.ready(name="HAMi works", release="hami", namespace="kube-system", values={}, limit=300)
    """
    found = gates.problems(trusted.read(host, Hami, release=release, namespace=namespace), values)
    if not noted(host, [Difference("ready", "HAMi", problem, "works") for problem in found]):
        host.noop("HAMi works")
        return
    yield FunctionCommand(wait_ready, (release, namespace, values, limit), {})


@operation()
def as_locked(
    release: str, namespace: str, images: Mapping[str, Image], judge: str
) -> Generator[PyinfraCommand]:
    """
    Stop this host when a container of HAMi runs another image than the lock names.

    + release: the Helm release
    + namespace: its namespace
    + images: the lock's, by full name
    + judge: how messages name the lock

    **Example:**

    .. code:: python

        hami.as_locked(release="hami", namespace="kube-system", images=lock.images, judge="releases.lock.yaml")
    """
    state = trusted.read(host, Hami, release=release, namespace=namespace)
    present = [pod for pod in state.pods or () if not pod.leaving]
    wrong = list(locked_images.differing(present, images, judge))
    if noted(host, [Difference("image", "HAMi", one, f"as in {judge}") for one in wrong]):
        yield FunctionCommand(fail, ("\n".join(wrong),), {})
        return
    host.noop("HAMi's images are those of the lock")


def wait_ready(
    state: State, host: Host, release: str, namespace: str, values: dict[str, Any], limit: int
) -> bool:
    """The wait of `ready`; restarts the device plugin once if it runs and registers nothing."""
    retry_after = min(RETRY_REGISTRATION_AFTER, 0.4 * limit)
    missing_since: list[float] = []
    restarted: list[str] = []
    plugin: list[str] = []

    def look() -> Look:
        now = trusted.fresh(host, Hami, release=release, namespace=namespace)
        plugin[:] = _plugin_pods(now)
        if gates.registration_missing(now):
            missing_since.append(time.monotonic())
            if not restarted and time.monotonic() - missing_since[0] > retry_after:
                restarted.append(_restart_plugin(host, namespace, now))
        found = gates.problems(now, values)
        return Look("wait", "; ".join(found)) if found else Look("done", "HAMi works")

    def plugin_log() -> str:
        if not plugin:
            return "there is no device plugin pod on this node whose log could be shown"
        logs = f"{KUBECTL} -n {namespace} logs {plugin[0]} -c device-plugin --tail=200 2>&1"
        log = cluster.ask(host, logs).stdout
        meaning = gates.explain_plugin_log(log)
        last = "\n".join(log.splitlines()[-6:])
        advice = f"the plugin's log says: {meaning}\n" if meaning else ""
        return f"{advice}last lines of the device plugin's log:\n{last}"

    return until(host, "HAMi", limit, look, "hami_ready_timeout", plugin_log)


def wait_redirects(state: State, host: Host, release: str, namespace: str, limit: int) -> bool:
    """Wait until GPU pods that are created go to HAMi's scheduler, where HAMi is installed. Until then the webhook fails open,
    and a pod that comes back from an eviction would be the default scheduler's, for ever."""

    def look() -> Look:
        now = trusted.fresh(host, Hami, release=release, namespace=namespace)
        if now.webhook is None and "webhooks" in now.errors and now.pods == ():
            return Look("done", "HAMi is not installed")
        found = gates.webhook(now)
        return Look("wait", "; ".join(found)) if found else Look("done", "GPU pods go to HAMi's scheduler")

    return until(host, "HAMi's webhook", limit, look, "hami_ready_timeout")


def _plugin_pods(now: HamiState) -> list[str]:
    """Names of the device plugin's pods on this host's node."""
    return [
        shlex.quote(pod.name)
        for pod in now.pods or ()
        if pod.component == "hami-device-plugin" and pod.node == now.own_node
    ]


def _restart_plugin(host: Host, namespace: str, now: HamiState) -> str:
    names = " ".join(_plugin_pods(now))
    host.log("    HAMi: the device plugin runs and has registered nothing; restarting it once (HAMi #2418)")
    cluster.ask(host, f"{KUBECTL} -n {namespace} delete pod --wait=false {names}")
    return names
