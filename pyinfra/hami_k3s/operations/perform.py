"""Other operations' commands inside one that runs: a node's upgrade is one operation, for a turn is given back at its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paramiko import SSHException
from pyinfra.api import FunctionCommand, Host, State, StringCommand
from pyinfra.api.command import PyinfraCommand

from hami_k3s import remote, trusted
from hami_k3s.waits import complain, fail


def perform(state: State, host: Host, commands: Iterable[PyinfraCommand]) -> bool:
    """Execute the commands that an operation's body (its `_inner`) yields. False at the first one that fails.

    The body is read as it goes: what it asks after a command is what that command has left.
    """
    trusted.forget(host)
    for command in commands:
        given: Any = {**remote.arguments(host), **command.connector_arguments}
        try:
            result: Any = command.execute(state, host, given)
        except (TimeoutError, OSError, SSHException) as error:
            return fail(state, host, f"the host cannot be reached any more ({type(error).__name__}: {error})")
        finally:
            trusted.forget(host)
        if isinstance(command, StringCommand):
            result, output = result
            if not result:
                complain(host, output.stderr or output.stdout)
        # A function that returns nothing has done its work.
        if result is False or (not result and not isinstance(command, FunctionCommand)):
            return False
    return True
