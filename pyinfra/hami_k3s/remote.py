"""Commands on a host from inside a running operation, with that operation's sudo."""

from __future__ import annotations

import shlex
import socket
from dataclasses import dataclass
from typing import Any, cast

from pyinfra.api import Host, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS

from hami_k3s import hold


@dataclass(frozen=True)
class Result:
    """What a command did: `ok` is exit status 0; a lost connection is not ok, with the reason in stderr."""

    ok: bool
    stdout: str
    stderr: str


def arguments(host: Host) -> dict[str, Any]:
    """The connector arguments (sudo and the like) of the operation that runs now."""
    given = cast("dict[str, Any]", host.current_op_global_arguments or {})
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
        return Result(False, "", reason)
    command = StringCommand("timeout", "-k", "5", str(timeout), "sh", "-c", shlex.quote(script))
    extra: dict[str, Any] = {**(arguments(host) if given is None else given), "_timeout": timeout + 15}
    if stdin is not None:
        extra["_stdin"] = stdin
    try:
        ok, output = host.run_shell_command(command, **extra)
    except Exception as error:  # paramiko, socket and timeout errors have no common base
        return Result(False, "", f"{type(error).__name__}: {error}")
    return Result(ok, "\n".join(output.stdout_lines), "\n".join(output.stderr_lines))


def tune(host: Host) -> None:
    """Make the SSH connection quick and mortal.

    paramiko leaves Nagle's algorithm on, and each command then waits 40 ms; and a host that vanishes without a word
    would be waited for until the kernel gives up, a quarter of an hour later.
    """
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client is not None else None
    sock = getattr(transport, "sock", None)
    if transport is not None and isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
        transport.set_keepalive(15)
