"""Measure, judge, report: one operation, which fails when a claim failed or could not be measured."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import command_line, gate
from hami_k3s.isolation.outcome import HostOutcome, unreached
from hami_k3s.proof.measure import measure
from hami_k3s.reports import terminal
from hami_k3s.reports.folder import run_directory
from hami_k3s.reports.run import Run
from hami_k3s.reports.trail import TRAIL
from hami_k3s.settings import Settings

_run: Run | None = None
_state: State | None = None


@operation(is_idempotent=False)
def isolation(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Prove on this host that two pods share each card and that each pod is held to its slice.

    + settings: the host's settings

    **Example:**

    .. code:: python

        verify.isolation(name="Two pods on one card", settings=settings)
    """
    _expect(host, settings)
    yield FunctionCommand(prove, (settings,), {})


def _expect(host: Host, settings: Settings) -> None:
    """The report knows every host of the run before the first is measured."""
    global _run, _state  # noqa: PLW0603  (one run a process)
    if _run is None:
        _state = host.state
        order = [one.name for one in _state.inventory]
        directory = run_directory(settings.report_folder)
        _run = Run(directory, command_line.STARTED, settings.report_language, order)
        TRAIL.silent = True  # the fleet's line of verify says it
    _run.expect(host.name)


def prove(state: State, host: Host, settings: Settings) -> bool:
    """True when every claim holds. Prints the table and writes the reports in any case."""
    started = datetime.now(UTC)
    try:
        outcome = measure(host, settings)
    except Exception as error:  # a bug must end as "could not be measured", with a report, not as a green run
        logger.exception("verify failed on %s", host.name)
        outcome = unreached(host.name, f"verify itself failed: {type(error).__name__}: {error}", started)
    for line in terminal.render(outcome).splitlines():
        logger.info(line)
    return _keep(host, settings, outcome)


def _keep(host: Host, settings: Settings, outcome: HostOutcome) -> bool:
    _expect(host, settings)
    assert _run is not None
    try:
        path = _run.add(outcome)
        host.log(f"    report: {path}")
    except OSError as error:
        host.log_styled(f"    the report could not be written: {error}; set report_folder", fg="red")
        return False
    return outcome.status.holds


def _close() -> None:
    """At the end of the process: what did not come to an end is in the reports too, and one line is the fleet's."""
    if _run is None or _state is None:
        return
    lost = {
        one.name: "the host could not be reached"
        for one in _state.inventory
        if one not in _state.activated_hosts
    }
    lost |= {
        one.name: f"an earlier step failed on the host: {TRAIL.reason(one.name)}"
        for one in _state.failed_hosts
        if one.name not in lost
    }
    limited = _state.limit_hosts
    names = {one.name for one in _state.inventory if limited is None or one in limited}
    text = _run.close({name: why for name, why in lost.items() if name in names})
    print(text)


gate.before_exit(_close)
