"""Measure, judge, report: one operation, which fails when a claim failed or could not be measured."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s.isolation.claims import judge
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import worst
from hami_k3s.proof.measure import measure
from hami_k3s.reports import json_report, terminal
from hami_k3s.settings import Settings

# One folder for all hosts of a run.
STARTED = datetime.now(UTC)


@operation(is_idempotent=False)
def isolation(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Prove on this host that two pods share one card and that each is held to its slice.

    + settings: the host's settings

    **Example:**

    .. code:: python

        verify.isolation(name="Two pods on one card", settings=settings)
    """
    yield FunctionCommand(prove, (settings,), {})


def prove(state: State, host: Host, settings: Settings) -> bool:
    """True when every claim holds. Prints the table and writes the host's report in any case."""
    started = datetime.now(UTC)
    try:
        evidence = measure(host, settings)
    except Exception as error:  # a bug must end as "could not be measured", with a report, not as a green run
        evidence = Evidence(
            host=host.name, errors={"cards": f"verify itself failed: {type(error).__name__}: {error}"}
        )
        logger.exception("verify failed on %s", host.name)
    verdicts = judge(evidence)
    for line in terminal.render(host.name, verdicts).splitlines():
        logger.info(line)
    directory = json_report.report_directory(Path(settings.verify_reports), STARTED)
    try:
        path = json_report.write(
            directory,
            host.name,
            verdicts,
            evidence,
            started=started,
            finished=datetime.now(UTC),
            versions={"k3s": evidence.server_version, "hami_chart": settings.hami_chart_version},
        )
        host.log(f"    report: {path}")
    except OSError as error:
        host.log_styled(f"    the report could not be written: {error}; set verify_reports", fg="red")
        return False
    return worst(verdicts).holds
