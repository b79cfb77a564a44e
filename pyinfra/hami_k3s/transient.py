"""Long work on a host as a transient systemd unit: it survives a lost SSH session, and its progress can be watched.

The script, its log and its exit status are under /run/hami-k3s/NAME. A unit that an interrupted run left behind
is waited for, never started a second time beside itself. A step may be begun ahead: `work` then only waits for it.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from typing import NamedTuple

from pyinfra.api import Host, State

from hami_k3s.remote import Result, run
from hami_k3s.waits import Look, complain, until

FOLDER = "/run/hami-k3s"
BUSY = "busy"
# systemd says SIGTERM a second time when the outer shell is gone: a script's clean-up (trap on EXIT) must outlive both.
CLEAN_END = "trap 'trap \"\" TERM; exit 1' TERM\n"
# The host itself waits for the end, about four seconds at most: a step costs few round trips, and its end is seen at once.
_LINGER = (
    "t=0.05 i=0; systemctl is-active --quiet {unit} || i=25; while [ ! -e {folder}/rc ] && [ $i -lt 25 ]; do "
    "sleep $t; i=$((i + 1)); [ $i -lt 8 ] || t=0.2; done; "
)
# What this run has begun ahead: (host's name, unit's name).
_begun: set[tuple[str, str]] = set()


class Step(NamedTuple):
    """A script for a unit. `what`: for the progress lines. `setting` is the one that holds `limit`, in seconds."""

    name: str
    what: str
    script: str
    limit: int
    setting: str


def _unit(name: str) -> str:
    return f"hami-k3s-{name}.service"


def _tail(folder: str) -> str:
    """Shell for the last lines of the log; of curl's progress bar only the number is kept."""
    return f"tail -n 20 {folder}/log 2>/dev/null | tr '\\r' '\\n' | sed -E 's/#{{3,}} *//; s/^[#O=-]* +//' | grep ."


def _show(name: str) -> str:
    """Shell that waits a little for the unit's end, and prints its state, its exit status and its last line."""
    folder = f"{FOLDER}/{name}"
    # ActiveState first: a unit that ends between the two reads has its exit status written before it is inactive
    return (
        f"{_LINGER.format(unit=_unit(name), folder=folder)}systemctl show -p ActiveState --value {_unit(name)}; "
        f"cat {folder}/rc 2>/dev/null || echo -; {_tail(folder)} | tail -n 1 | cut -c 1-120"
    )


def name_of(unit: str) -> str:
    """`hami-k3s-helm.service` -> `helm`."""
    return unit.removeprefix("hami-k3s-").removesuffix(".service")


def at_work(host: Host, name: str) -> Look:
    """Is the unit at work; when it is not, its exit status is what was seen, "-" without one."""
    return _parse(run(host, _show(name)))


def _parse(result: Result) -> Look:
    lines = result.stdout.splitlines()
    if not result.ok or len(lines) < 2:
        return Look("failed", f"the host does not answer: {result.stderr or result.stdout}")
    active, status = lines[0], lines[1]
    last = lines[2].strip() if len(lines) > 2 else ""
    if active in ("active", "activating", "deactivating", "reloading"):
        return Look("wait", last or "running")
    return Look("done", status)


def _judge(now: Look, killed: str) -> Look:
    if now.state != "done":
        return now
    if now.seen == "0":
        return Look("done", "done")
    return Look("failed", killed if now.seen == "-" else f"exit status {now.seen}")


def wait(host: Host, name: str, what: str, limit: int, setting: str, first: Result | None = None) -> bool:
    """Wait for the unit. True when it ended with exit status 0.

    + first: what starting it has shown already
    """
    shown = [first] if first is not None and first.stdout.strip() else []

    def log() -> str:
        return run(host, f"{_tail(f'{FOLDER}/{name}')} | grep -v '%$'").stdout

    killed = f"killed, or stopped at its limit of {limit} s ({setting})"

    def look() -> Look:
        return _judge(_parse(shown.pop()) if shown else at_work(host, name), killed)

    return until(host, what, limit + 10, look, setting, log, pause=0.2)


def begin(state: State, host: Host, *steps: Step) -> bool:
    """Start these steps, in one command, and leave them at work; `work` waits for each when its turn has come.

    One that cannot be started, or is still at work for an interrupted run, is left to `work` as well.
    """
    lines = []
    for step in steps:
        text = b64encode((CLEAN_END + step.script).encode()).decode()
        script = _launch(step.name, f"base64 -d <<'END' >{FOLDER}/{step.name}/script", step.limit)
        # The text of a here-document follows the line that asks for it.
        lines += [f"{script} && echo {step.name}", text, "END"]
    said = run(host, "sh -s", stdin="\n".join(lines)).stdout.splitlines()
    _begun.update((host.name, step.name) for step in steps if step.name in said)
    return True


def begun(host: Host, name: str) -> bool:
    """Has this run begun the step, and not yet waited for it?"""
    return (host.name, name) in _begun


def work(state: State, host: Host, name: str, what: str, script: str, limit: int, setting: str) -> bool:
    """Run the script as root in a unit of its own, stopped after `limit` seconds. True when it succeeded.

    The arguments are those of a `Step`; one that was begun ahead is not started again.
    """
    if begun(host, name):
        _begun.discard((host.name, name))
        return wait(host, name, what, limit, setting)
    for _ in range(2):
        start = _start(host, name, script, limit)
        if start.stdout.strip() != BUSY:
            break
        host.log(f"    {what}: an interrupted run's step is still at work, waiting for it")
        wait(host, name, what, limit, setting)
    if not start.ok or start.stdout.strip() == BUSY:
        complain(host, f"{what}: could not start: {start.stderr or start.stdout}")
        return False
    return wait(host, name, what, limit, setting, start)


def _start(host: Host, name: str, script: str, limit: int) -> Result:
    busy = f"if systemctl is-active --quiet {_unit(name)}; then echo {BUSY}; exit 0; fi"
    launch = _launch(name, f"cat >{FOLDER}/{name}/script", limit)
    return run(host, f"{busy}; {launch} && {{ {_show(name)}; }}", stdin=CLEAN_END + script)


def _launch(name: str, write: str, limit: int) -> str:
    """Shell that starts the unit, unless it is at work; `write` is what puts its script into the folder."""
    folder = f"{FOLDER}/{name}"
    inner = f"sh {folder}/script >{folder}/log 2>&1 </dev/null; echo $? >{folder}/rc.new; mv {folder}/rc.new {folder}/rc"
    return (
        f"! systemctl is-active --quiet {_unit(name)} && umask 077 && mkdir -p {folder} && "
        f"rm -f {folder}/rc {folder}/log && {write} && "
        f"systemd-run --quiet --collect --unit={_unit(name)} --property=RuntimeMaxSec={limit} --setenv=HOME=/root "
        f"sh -c {shlex.quote(inner)}"
    )
