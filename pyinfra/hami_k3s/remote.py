"""Commands on a host from inside a running operation, with that operation's sudo."""

from __future__ import annotations

import shlex
import socket
from dataclasses import dataclass
from typing import Any, cast

import gevent  # type: ignore[import-untyped]
from gevent.lock import BoundedSemaphore  # type: ignore[import-untyped]
from paramiko import SSHException
from pyinfra.api import Host, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments

from hami_k3s import hold

# sshd lets ten commands run on one connection at a time (MaxSessions); a cluster's agents share their server's.
CHANNELS = 8
LOST = "the connection to the host was lost"
KEEPALIVE, SILENCE = 10, 45  # seconds
# By name: in an operation's body `host` is a stand-in for whichever host is at work in that greenlet.
_channels: dict[str, BoundedSemaphore] = {}


@dataclass(frozen=True)
class Result:
    """What a command did: `ok` is exit status 0. `lost`: why it could not be run at all, which is in stderr too."""

    ok: bool
    stdout: str
    stderr: str
    lost: str = ""


def arguments(host: Host) -> dict[str, Any]:
    """The connector arguments (sudo and the like) of the operation that runs now, else those of the host's data."""
    given = cast("dict[str, Any]", host.current_op_global_arguments)
    if given is None:  # another host's operation asks this one
        given = cast("dict[str, Any]", pop_global_arguments(host.state, host, {})[0])
    return {key: value for key, value in given.items() if key in CONNECTOR_ARGUMENT_KEYS}


def run(
    host: Host,
    script: str,
    stdin: str | None = None,
    timeout: int = 60,
    given: dict[str, Any] | None = None,
) -> Result:
    """Run a shell script. It is stopped on the host after `timeout` seconds; never raises for a failing host.

    `given`: connector arguments kept from `arguments`, for a call after the operation has ended.
    A run that has lost the host's lock runs nothing more there, but for such clean-up.
    """
    if given is None and (reason := hold.lost(host)):
        return Result(False, "", reason, lost=reason)
    command = StringCommand("timeout", "-k", "5", str(timeout), "sh", "-c", shlex.quote(script))
    extra: dict[str, Any] = {**(arguments(host) if given is None else given), "_timeout": timeout + 15}
    if stdin is not None:
        extra["_stdin"] = stdin
    try:
        with _channels.setdefault(host.name, BoundedSemaphore(CHANNELS)):
            ok, output = host.run_shell_command(command, **extra)
    except Exception as error:  # paramiko, socket and timeout errors have no common base
        reason = f"the host cannot be reached any more ({type(error).__name__}: {error})"
        return Result(False, "", reason, lost=reason)
    said, wrong = "\n".join(output.stdout_lines), "\n".join(output.stderr_lines)
    if not ok and not said and not wrong and (reason := gone(host) or ""):
        return Result(
            False, "", reason, lost=reason
        )  # the command's last words were lost with the connection
    return Result(ok, said, wrong)


def gone(host: Host) -> str | None:
    """Why nothing more can be done on this host, or None: its connection is closed, or somebody else has taken it."""
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client is not None else None
    if client is not None and (transport is None or not transport.is_active()):
        return f"{LOST}. Run the same command again: it finishes the job"
    return hold.lost(host)


def tune(host: Host) -> None:
    """Make the SSH connection quick and mortal.

    paramiko leaves Nagle's algorithm on, and each command then waits 40 ms; and a host that vanishes without a word
    would be waited for as long as the kernel, or a proxy on the way, keeps the connection: up to for ever.
    """
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client is not None else None
    sock = getattr(transport, "sock", None)
    if transport is not None and isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE * 1000)
        gevent.spawn(_watch, transport)
        _translate(host.connector)


def _translate(connector: Any) -> None:
    """paramiko says EOFError for a connection that ended, which pyinfra takes for a bug that ends the run of all hosts."""
    run_shell_command = connector.run_shell_command

    def translated(*words: Any, **options: Any) -> Any:
        try:
            return run_shell_command(*words, **options)
        except EOFError as error:
            raise SSHException(LOST) from error

    connector.run_shell_command = translated


def _watch(transport: Any) -> None:
    """Ask sshd for a sign of life every KEEPALIVE seconds; without one, everything on the connection ends with an error."""
    while transport.is_active():
        answered = False
        with gevent.Timeout(SILENCE, False):
            transport.global_request("keepalive@openssh.com", wait=True)
            answered = True
        if not answered:
            transport.close()
        gevent.sleep(KEEPALIVE)
