"""Step 1 of the lab: the host, its driver, and what would be in the way."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from pyinfra.api.deploy import deploy
from pyinfra.context import ctx_state

from hami_k3s import gate
from hami_k3s.operations import host
from hami_k3s.reports import preflight as report
from hami_k3s.reports.trail import TRAIL
from hami_k3s.stages.common import alone, settings


@deploy("Preflight")
def gpu_host() -> None:
    """Stop a host that cannot be a GPU node, with every reason at once, before any change."""
    want = settings(changes=False)
    host.look(name="Look at the host", settings=want)
    host.gpu_host(name="The host can be a GPU node", settings=want)
    alone(want)


@deploy("Preflight")
def every_problem() -> None:
    """Show every problem of every host, and at the end the fleet; change nothing."""
    want = settings(changes=False)
    _summarise()
    host.look(name="Look at the host", settings=want)
    host.preflight(name="Every problem at once", settings=want)


@cache
def _summarise() -> None:
    """At the end of the process, also when no host was left to go on with."""
    TRAIL.silent = True
    state: Any = ctx_state.get()  # type: ignore[no-untyped-call]

    def close() -> None:
        if not report.RUN.hosts and not state.failed_hosts:
            return
        activated = {one.name for one in state.activated_hosts}
        lost = {
            one.name: "unreachable" if one.name not in activated else "it could not be looked at"
            for one in state.inventory
            if one.name not in report.RUN.hosts and (one in state.failed_hosts or one.name in activated)
        }
        sys.stderr.write("\n" + report.summary(report.RUN.hosts, lost) + "\n")
        try:
            sys.stderr.write(f"JSON: {report.RUN.write(lost)}\n")
        except OSError as error:
            sys.stderr.write(f"Error: the JSON could not be written: {error}; set report_folder\n")

    gate.before_exit(close)
