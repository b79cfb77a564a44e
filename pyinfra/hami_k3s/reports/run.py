"""All hosts of one run: each host's file as soon as it is known, and the fleet's reports, complete at every moment.

A run may end in the middle (Ctrl-C, a lost terminal): the fleet's report.json then already has every host, those that
did not come to an end as errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hami_k3s import command_line
from hami_k3s.isolation.outcome import HostOutcome, unreached
from hami_k3s.reports import document, junit, pages, terminal
from hami_k3s.reports.folder import replace, to_json

UNFINISHED = "verify did not come to an end on this host: the run was interrupted"


class Run:
    """Collects the outcomes of one run and keeps its files."""

    def __init__(
        self, directory: Path, started: datetime, language: str = "en", order: Sequence[str] = ()
    ) -> None:
        """`order`: hosts are shown in this order, others after them."""
        self._order = {name: number for number, name in enumerate(order)}
        self.started = started
        self.directory = directory
        self.language = language
        self._expected: dict[str, str] = {}
        self._outcomes: dict[str, HostOutcome] = {}

    def expect(self, host: str) -> None:
        """This host will be measured. Until it is, it counts as unfinished."""
        self._expected.setdefault(host, UNFINISHED)

    def add(self, outcome: HostOutcome) -> Path:
        """Write the host's file and all reports. Errors: OSError."""
        self._outcomes[outcome.host] = outcome
        path = self.directory / f"{document.file_name(outcome.host)}.json"
        replace(path, to_json(document.host(outcome)))
        self._write()
        return path

    def close(self, lost: dict[str, str]) -> str:
        """The last word: the fleet's lines for the terminal.

        + lost: hosts on which nothing was measured, and why
        """
        self._expected |= {host: why for host, why in lost.items() if host not in self._outcomes}
        try:
            where = f"report: {self._write(closing=True)}"
        except OSError as error:
            where = f"the reports could not be written: {error}; set report_folder"
        return "\n".join([terminal.fleet(self.outcomes(), self.rerun()), where])

    def outcomes(self) -> list[HostOutcome]:
        """Every host; those without a result as errors."""
        names = [*self._expected, *(name for name in self._outcomes if name not in self._expected)]
        names.sort(key=lambda name: self._order.get(name, len(self._order)))
        return [self._outcomes.get(name) or unreached(name, self._expected[name]) for name in names]

    def rerun(self) -> str | None:
        """The command that looks again at the hosts that do not hold; None when all do."""
        bad = [outcome.host for outcome in self.outcomes() if not outcome.status.holds]
        return command_line.again(bad) if bad else None

    def _write(self, closing: bool = False) -> Path:
        done = closing or set(self._expected) <= set(self._outcomes)
        unfinished = [name for name in self._expected if name not in self._outcomes]
        interrupted = closing and any(self._expected[name] == UNFINISHED for name in unfinished)
        whole = document.fleet(
            self.outcomes(),
            started=self.started,
            finished=datetime.now(UTC) if done and not interrupted else None,
            rerun=self.rerun(),
            trouble="interrupted" if interrupted else "",
        )
        replace(self.directory / "report.json", to_json(whole))
        if done:  # the pages of an unfinished run would only be thrown away
            replace(self.directory / "junit.xml", junit.render(whole))
            replace(self.directory / "report.md", pages.markdown(whole, self.language))
            page = self.directory / "report.html"
            replace(page, pages.html(whole, self.language))
            return page
        return self.directory / "report.json"
