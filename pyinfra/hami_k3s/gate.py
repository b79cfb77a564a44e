"""pyinfra's exit status is 0 in two cases where nothing was done: a --limit that matches nothing, and Ctrl-C. Not here.

And Ctrl-C, SIGTERM or a closed terminal end what runs: pyinfra's own handler leaves the operation at work and then waits
for it, since disconnecting needs a place in the same full pool.
"""

from __future__ import annotations

import atexit
import os
import signal
import stat
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import gevent  # type: ignore[import-untyped]
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_state

from hami_k3s import quick

_cleanups: list[Callable[[], None]] = []
_last: list[Callable[[], None]] = []


@cache
def install() -> None:
    """Check at the end of this process. Later calls change nothing."""
    quick.install()
    atexit.register(_check)
    if getattr(signal.getsignal(signal.SIGINT), "__module__", "") == "pyinfra_cli.main":
        signal.signal(signal.SIGINT, _interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup's runs go on
                signal.signal(number, _interrupt)


def _interrupt(number: int, _: object) -> None:
    """Operations are ended where they stand, with their clean-up; then the process goes through its usual end."""
    if number == signal.SIGHUP:
        _leave_terminal()
    sys.stderr.write(
        "Interrupted; what was at work on the hosts is being ended. Ctrl-C again does not wait for it.\n"
    )
    state: Any = ctx_state.get() if ctx_state.isset() else None  # type: ignore[no-untyped-call]
    if state is not None and state.initialised:
        state.pool.kill(block=False)
    # The signal may arrive in any greenlet: an exit is heard only in the main one.
    gevent.get_hub().handle_system_error(SystemExit, SystemExit(1))


def _leave_terminal() -> None:
    """A closed terminal: every line written to it would be an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        if stat.S_ISCHR(os.fstat(number).st_mode):
            os.dup2(nowhere, number)


def before_exit(cleanup: Callable[[], None]) -> None:
    """Run this at the end of the process, before the check: what an interrupted operation left on hosts."""
    install()
    _cleanups.append(cleanup)


def at_last(report: Callable[[], None]) -> None:
    """Run this at the end of the process, after all clean-up."""
    install()
    _last.append(report)


def verdict(state: Any) -> str | None:
    """Why a run that ends with this state is no success, or None."""
    if not state.activated_hosts and not state.failed_hosts:
        names = ", ".join(host.name for host in state.inventory)
        return f"no host was used: --limit or --exclude left none of: {names}"
    if state.current_stage == StateStage.Execute and state.active_hosts:
        return "interrupted. Run the same command again: it finishes the job"
    return None


def _check() -> None:
    try:
        for cleanup in _cleanups:
            cleanup()
    finally:
        for report in _last:
            report()
    state: Any = ctx_state.get() if ctx_state.isset() else None  # type: ignore[no-untyped-call]
    if state is None or not state.initialised or "debug-inventory" in sys.argv:
        return
    if reason := verdict(state):
        sys.stderr.write(f"Error: {reason}\n")
        sys.stderr.flush()
        os._exit(1)
