"""One run at a time on a host: a lock there that a session of this run holds for as long as the run lives.

It needs no clean-up. When the control process ends, also by `kill -9`, its connection ends and the kernel lets go of the
lock; a reboot clears it; and when the network is cut, nothing has been heard of the holder for a while (SILENCE).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol, cast

import gevent  # type: ignore[import-untyped]
from gevent import subprocess
from pyinfra.api import Host, QuoteString, StringCommand
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.util import extract_control_arguments, make_unix_command_for_host

from hami_k3s.templating import render

LOCK = "/run/hami-k3s.lock"
UNITS = "hami-k3s-*.service"
BEAT = 15  # seconds between two signs of life
SILENCE = (
    90  # seconds without one after which the host lets go; longer than a dead connection lives (remote.tune)
)
ANSWER = 30  # seconds for the host to say who holds the lock


class Line(Protocol):
    """A command on the host that goes on: lines to its stdin, lines from its stdout."""

    def send(self, text: str) -> None: ...
    def read(self) -> str: ...
    def errors(self) -> str: ...
    def ended(self) -> bool: ...
    def close(self) -> None: ...


class _Channel:
    """Over paramiko."""

    def __init__(self, client: Any, command: str) -> None:
        self.stdin, self.stdout, self.stderr = client.exec_command(command)

    def send(self, text: str) -> None:
        self.stdin.write(f"{text}\n".encode())
        self.stdin.flush()

    def read(self) -> str:
        return str(self.stdout.readline())

    def errors(self) -> str:
        return "".join(self.stderr.readlines()).strip()

    def ended(self) -> bool:
        channel = self.stdout.channel
        return bool(channel.closed or channel.exit_status_ready() or not channel.get_transport().is_active())

    def close(self) -> None:
        self.stdout.channel.close()


class _Process:
    """On this machine itself."""

    def __init__(self, command: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe)

    def send(self, text: str) -> None:
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def read(self) -> str:
        return str(self.process.stdout.readline().decode(errors="replace"))

    def errors(self) -> str:
        return str(self.process.stderr.read().decode(errors="replace")).strip()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def close(self) -> None:
        self.process.stdin.close()


@dataclass
class _Held:
    line: Line
    heard: float


@dataclass(frozen=True)
class Answer:
    """`held`: it is ours now, and `units` are steps of an interrupted run that are still at work; else `owner` has it,
    last heard of `silent` seconds ago, by process `pid` of the host. `error`: the host cannot be locked."""

    held: bool = False
    units: tuple[str, ...] = ()
    owner: str = ""
    silent: int = 0
    pid: str = ""
    error: str = ""


# By name: in an operation's body `host` is a stand-in for whichever host is at work in that greenlet.
_held: dict[str, _Held] = {}


def take(host: Host, owner: str, given: dict[str, Any]) -> Answer:
    """Try to get the lock of this host; does not wait for it. Never raises for a failing host.

    + owner: one line that says whose run this is
    + given: connector arguments (sudo and the like)
    """
    line: Line | None = None
    try:
        with gevent.Timeout(ANSWER, TimeoutError("the host does not answer")):
            line = _open(host, given)
            line.send(" ".join(owner.split()))
            answer = _answer(line)
    except Exception as error:  # paramiko, socket and pipe errors have no common base
        answer = Answer(error=f"{type(error).__name__}: {error}")
    if line is not None and answer.held:
        _held[host.name] = _Held(line, time.monotonic())
        gevent.spawn(_beat, _held[host.name])
    elif line is not None:
        line.close()
    return answer


def _open(host: Host, given: dict[str, Any]) -> Line:
    script = render("lock.bash", lock=LOCK, unit=UNITS, silence=SILENCE)
    arguments = cast("Any", {**given})
    extract_control_arguments(arguments)
    command = make_unix_command_for_host(
        host.state, host, StringCommand("bash -c", QuoteString(script)), **arguments
    ).get_raw_value()
    client = getattr(host.connector, "client", None)
    if client is not None:
        return _Channel(client, command)
    if isinstance(host.connector, LocalConnector):
        return _Process(command)
    raise OSError(f"connector {type(host.connector).__name__} cannot hold a session open; use SSH or @local")


def _answer(line: Line) -> Answer:
    while text := line.read():
        word, _, rest = text.strip().partition(" ")
        if word == "held":
            return Answer(held=True, units=tuple(rest.split()))
        if word == "busy":
            silent, pid, owner = [*rest.split(" ", 2), "", "", ""][:3]
            return Answer(owner=owner, silent=int(silent) if silent.isdigit() else 0, pid=pid)
        # Anything else is a login banner.
    return Answer(error=line.errors() or "the session ended without a word")


def _beat(own: _Held) -> None:
    while not own.line.ended():
        try:
            own.line.send("")
        except (OSError, ValueError):  # the connection or the pipe is gone
            return
        own.heard = time.monotonic()
        gevent.sleep(BEAT)


def holds(host: Host) -> bool:
    """Has this run the lock?"""
    return host.name in _held


def lost(host: Host) -> str | None:
    """Why this run must not go on on a host whose lock it had, or None."""
    own = _held.get(host.name)
    if own is None or (not own.line.ended() and time.monotonic() - own.heard < SILENCE):
        return None
    return (
        "this run no longer holds the host: the connection was cut, this process was stopped for too long, or somebody "
        "ended its session there. Run the same command again: it finishes the job"
    )


def forget(host: Host) -> None:
    """Before a reboot, which lets go of the lock: until then it is still held there, and must be taken again afterwards."""
    _held.pop(host.name, None)
