"""Nobody else is at work on the host: neither another run nor a step that an interrupted one left."""

from __future__ import annotations

import os
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.state import StateStage
from pyinfra.connectors.util import SUDO_PASSWORD_REQUIRED_LINES

from hami_k3s import command_line, hold, remote, transient
from hami_k3s.waits import Look, fail, until

SETTING = "preflight_lock_timeout"


@operation()
def alone(limit: int) -> Generator[PyinfraCommand]:
    """
    Hold the host's lock from here to the end of this run. While somebody else has it, wait, and say who.

    + limit: seconds

    **Example:**

    .. code:: python

        lock.alone(name="No other run on this host", limit=900)
    """
    if host.state.current_stage != StateStage.Execute or hold.holds(host):
        host.noop("a dry run needs no lock, and a run needs it once")
        return
    answer = take(host)
    if answer.error:
        yield FunctionCommand(fail, (f"this host cannot be locked against other runs: {answer.error}",), {})
        return
    if answer.held and not answer.units:
        host.noop("no other run is at work on this host")
        return
    yield FunctionCommand(wait, (limit, answer), {})


def take(host: Host) -> hold.Answer:
    """Try to get the lock, in the name of whoever typed this command."""
    since = command_line.STARTED.strftime("%Y-%m-%d %H:%M:%S UTC")
    who = f"{command_line.operator()} (process {os.getpid()} there)"
    owner = f"{who}, since {since}, with: {command_line.shown()}"
    answer = hold.take(host, owner, remote.arguments(host))
    if any(line in answer.error for line in SUDO_PASSWORD_REQUIRED_LINES):
        remote.run(host, "true")  # pyinfra asks for the password
        answer = hold.take(host, owner, remote.arguments(host))
    return answer


def wait(state: State, host: Host, limit: int, first: hold.Answer | None = None) -> bool:
    """Wait for the other run, then for what an interrupted run left at work. True when the host is ours alone.

    + first: the answer that was there already
    """
    answers = [first or take(host)]

    def look() -> Look:
        now = answers.pop() if answers else take(host)
        if now.error:
            return Look("failed", f"this host cannot be locked against other runs: {now.error}")
        if now.held:
            left.extend(now.units)
            return Look("done", "it has ended")
        pids.append(now.pid)
        return Look("wait", f"{now.owner or 'somebody'}; last heard of {now.silent} s ago")

    def advice() -> str:
        return (
            "Wait for it, or end it where it was started. A run that is gone lets go of the host by itself, at the "
            f"latest {hold.SILENCE} s after it was last heard of.\n"
            f"`kill {pids[-1]}` on this host takes the host from it: it then stops at its next step."
            if pids
            else ""
        )

    left: list[str] = []
    pids: list[str] = []
    if not until(host, "Another run's end", limit, look, SETTING, advice):
        return False
    return all(_left_at_work(host, unit, limit) for unit in left)


def _left_at_work(host: Host, unit: str, limit: int) -> bool:
    name = transient.name_of(unit)
    host.log(f"    {name}: an interrupted run's step is still at work, waiting for it")

    def advice() -> str:
        return f"`systemctl stop {unit}` on this host ends it; its log is {transient.FOLDER}/{name}/log"

    return until(host, f"Step {name}", limit, lambda: transient.at_work(host, name), SETTING, advice)
