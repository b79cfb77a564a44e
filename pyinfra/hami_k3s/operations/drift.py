"""What differs on a host from what its settings want; nothing is changed."""

from __future__ import annotations

import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.context import ctx_state

from hami_k3s import command_line, gate
from hami_k3s.looking import Found
from hami_k3s.reports import drift as report
from hami_k3s.reports.folder import replace, run_directory, to_json
from hami_k3s.settings import Settings

# Of this run, by host name: what its operations found, and the hosts whose last operation has looked.
FOUND: dict[str, list[Found]] = {}
_complete: set[str] = set()


@operation(is_idempotent=False)
def differences(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Show what the operations before this one found, and fail the host when it is anything. Changes nothing.

    + settings: the host's settings

    **Example:**

    .. code:: python

        drift.differences(name="What differs", settings=settings)
    """
    yield FunctionCommand(show, (), {})


def show(state: State, host: Host) -> bool:
    """Print the host's table. True when nothing differs."""
    _complete.add(host.name)
    rows = FOUND.get(host.name, [])
    for line in report.table(host.name, rows).splitlines():
        logger.info(line)
    return not rows


@cache
def summarise(folder: str) -> None:
    """At the end of the process the fleet's summary and the JSON, also when no host was left to go on with."""

    def close() -> None:
        state: Any = ctx_state.get() if ctx_state.isset() else None  # type: ignore[no-untyped-call]
        if state is None or not (_complete or state.failed_hosts):
            return
        names = [one.name for one in state.inventory if state.is_host_in_limit(one)]
        activated = {one.name for one in state.activated_hosts}
        hosts = {name: FOUND.get(name, []) for name in names if name in _complete}
        lost = {
            name: "unreachable"
            if name not in activated
            else "it stopped answering, or the run was interrupted"
            for name in names
            if name not in hosts
        }
        differ = [name for name, rows in hosts.items() if rows]
        fix = command_line.again(differ, _converge()) if differ else None
        sys.stderr.write("\n" + report.summary(hosts, lost, fix) + "\n")
        path = run_directory(folder) / "drift.json"
        try:
            replace(path, to_json(report.document(hosts, lost, fix)))
            sys.stderr.write(f"JSON: {path}\n")
        except OSError as error:
            sys.stderr.write(f"Error: the JSON could not be written: {error}; set report_folder\n")

    gate.before_exit(close)


def _converge() -> list[str]:
    """The command that was typed, with gpu_node.py in place of drift.py."""
    words = [word for word in sys.argv if word != "-y"]
    return [
        str(Path(word).with_name("gpu_node.py")) if Path(word).name == "drift.py" else word for word in words
    ]
