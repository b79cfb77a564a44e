"""The way back, part by part. What each part still has to do is read from the host, so that an interrupted reset goes on."""

from __future__ import annotations

import sys
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.state import StateStage

from hami_k3s import cluster, command_line, leftover, traces, transient
from hami_k3s.facts.k3s import INPUTS_STARTED
from hami_k3s.facts.toolkit import KEY, PACKAGES, SOURCE
from hami_k3s.operations import authority
from hami_k3s.operations import k3s as k3s_operation
from hami_k3s.operations.files import Contents, script
from hami_k3s.operations.registries import Registries
from hami_k3s.operations.reset_hami import forget, others, read, whole
from hami_k3s.settings import Settings
from hami_k3s.templating import render
from hami_k3s.waits import Look, fail, until

ALONE = "others of its cluster would lose their last server. Name them in the same run, or remove them first"


@operation()
def unused(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Stop this host while somebody's pods use its cards, unless `reset_force` is true. Changes nothing.

    + settings: the host's settings

    **Example:**

    .. code:: python

        reset.unused(name="No GPU pod is lost unasked", settings=settings)
    """
    state = read(settings)
    reason = leftover.refusal(state, settings, whole(state))
    if not reason:
        host.noop("nobody loses a card")
        return
    go_on = command_line.again([host.name], [*sys.argv, "--data", "reset_force=true"])
    message = f"{reason}\nNothing was changed on this host. To go on all the same:\n    {go_on}"
    yield FunctionCommand(fail, (message,), {})


@operation()
def files(settings: Settings, plain: str) -> Generator[PyinfraCommand]:
    """
    Remove what HAMi left on the host, NVIDIA's runtime from k3s' drop-in, and the holds of packages.

    + settings: the host's settings
    + plain: the drop-in without NVIDIA's runtime

    **Example:**

    .. code:: python

        reset.files(name="HAMi's files and holds are gone", settings=settings, plain="# nothing")
    """
    state = read(settings)
    there = state.paths.get("always", ())
    if not there and not state.held:
        host.noop("nothing of them is there")
        return
    text = render(
        "scripts/reset-host.sh",
        held=state.held,
        rewritten=script({traces.DROP_IN: (plain, "600")}) if traces.DROP_IN in there else "",
        paths=[one for one in there if one != traces.DROP_IN],
        folders=traces.FOLDERS,
        limit=settings.toolkit_timeout,
    )
    work = ("reset-host", "Removing HAMi's files", text, settings.toolkit_timeout, "toolkit_timeout")
    yield FunctionCommand(transient.work, work, {})


@operation()
def k3s(settings: Settings, scripts: Contents) -> Generator[PyinfraCommand]:
    """
    Remove k3s with all its data, helm, and our entries of registries.yaml, if `reset_k3s` is true. Your own files stay.

    + settings: the host's settings
    + scripts: path -> (text, mode) of k3s-killall.sh and k3s-uninstall.sh

    **Example:**

    .. code:: python

        reset.k3s(name="k3s is gone, if asked", settings=settings, scripts=scripts)
    """
    if not settings.reset_k3s:
        host.noop("k3s stays (reset_k3s is false)")
        return
    state = read(settings)
    if state.k3s == "another":
        reason = "another installer's k3s is here, with its own unit; it is not touched"
        yield FunctionCommand(fail, (f"{reason}: /usr/local/bin/k3s-uninstall.sh is its own way out",), {})
        return
    if not state.paths.get("k3s"):
        host.noop("k3s is not there")
        return
    leaves = not whole(state)
    if (
        leaves
        and not cluster.is_agent(host)
        and not any(one not in host.state.active_hosts for one in others(host))
    ):
        nodes = ", ".join(state.nodes)
        yield FunctionCommand(fail, (f"k3s stays on this server: {ALONE} (nodes: {nodes})",), {})
        return
    if any("registries" in one for one in state.paths["k3s"]):
        yield FunctionCommand(Registries({}).apply, (), {})
    text = script(scripts) + render(
        "scripts/reset-k3s.sh",
        root="",
        library=traces.LIBRARY,
        begun=traces.BEGUN,
        paths=state.paths["k3s"],
        folders=traces.FOLDERS,
    )
    yield FunctionCommand(transient.work, ("reset-k3s", "Removing k3s", text, 300, "reset_k3s"), {})
    if leaves:
        yield FunctionCommand(forget, (state.node,), {})


@operation()
def toolkit(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Remove the toolkit's packages, NVIDIA's repository and the private CA, if `reset_toolkit` is true.

    + settings: the host's settings

    **Example:**

    .. code:: python

        reset.toolkit(name="The toolkit is gone, if asked", settings=settings)
    """
    if not settings.reset_toolkit:
        host.noop("the toolkit stays (reset_toolkit is false)")
        return
    state = read(settings)
    if not state.packages and not state.paths.get("toolkit"):
        host.noop("the toolkit is not there")
        return
    text = render(
        "scripts/reset-toolkit.sh",
        root="",
        packages=state.packages,
        all=PACKAGES,
        limit=settings.toolkit_timeout,
        authority=authority.FILE if any("ca" in one for one in state.paths.get("toolkit", ())) else "",
        library=traces.LIBRARY,
        key=KEY,
        source=SOURCE,
        aside=traces.ASIDE,
        store=f"{traces.STORE}/libnvidia-container",
        folders=traces.FOLDERS,
    )
    work = ("reset-toolkit", "Removing the toolkit", text, settings.toolkit_timeout, "toolkit_timeout")
    yield FunctionCommand(transient.work, work, {})


@operation()
def settled(settings: Settings) -> Generator[PyinfraCommand]:
    """
    A k3s that stays runs with what is there now; the logs of this project's steps go.

    + settings: the host's settings

    **Example:**

    .. code:: python

        reset.settled(name="k3s runs with what is left", settings=settings)
    """
    state = read(settings)
    restart = state.k3s == "ours" and state.stale
    logs = state.paths.get("run", ())
    if not restart and not logs:
        host.noop("nothing is to be settled")
        return
    if restart:
        yield StringCommand(f"systemctl restart --no-block {cluster.unit(host)}.service")
        yield FunctionCommand(_answers, (settings.k3s_ready_timeout,), {})
    if logs:
        yield StringCommand("rm -rf", *[QuoteString(one) for one in logs])
    yield StringCommand(f"[ -e {INPUTS_STARTED} ] || rm -rf {traces.RUN}")


def _answers(state: State, host: Host, limit: int) -> bool:
    def look() -> Look:
        now = k3s_operation.state_of(host, fresh=True)
        if now.active != "active" or now.stale or now.api != "ok" or now.own is None or not now.own.ready:
            return Look("wait", f"k3s is {now.active or 'unknown'}, its node is not Ready yet")
        return Look("done", "k3s runs without NVIDIA's runtime as the default")

    return until(host, "k3s", limit, look, "k3s_ready_timeout")


@operation()
def audit(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Show what is still there and why it stays; fail when it was asked to be removed. Changes nothing.

    + settings: the host's settings

    **Example:**

    .. code:: python

        reset.audit(name="What is left", settings=settings)
    """
    state = read(settings)
    if host.state.current_stage == StateStage.Execute:
        for line in leftover.staying(state, settings, whole(state)):
            host.log(f"    stays: {line}")
    if not state.answered:
        yield FunctionCommand(
            fail, ("the host did not say what is left on it; run the same command again",), {}
        )
    elif left := leftover.to_remove(state, settings, whole(state)):
        text = "not removed: " + ", ".join(left)
        yield FunctionCommand(
            fail,
            (f"{text}\nRun the same command again; `journalctl -u 'hami-k3s-reset-*'` has the reasons",),
            {},
        )
    else:
        host.noop("nothing is left of what was to be removed")
