"""All hosts of one run: each host's file as soon as it is known, and the fleet's reports.

A run may end in the middle (Ctrl-C, a lost terminal): the fleet's report.json then already has every host, those that
did not come to an end as errors. After `kill -9` the latest hosts may be in their own files alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hami_k3s import command_line
from hami_k3s.isolation.outcome import HostOutcome, unreached
from hami_k3s.reports import document, junit, pages, terminal
from hami_k3s.reports.folder import replace, to_json

PAUSE = 20  # times as long as writing the fleet's report took, until it is written again
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
        self._again = 0.0

    def expect(self, host: str) -> None:
        """This host will be measured. Until it is, it counts as unfinished."""
        self._expected.setdefault(host, UNFINISHED)

    def add(self, outcome: HostOutcome) -> Path:
        """Write the host's file and all reports. Errors: OSError."""
        self._outcomes[outcome.host] = outcome
        path = self.directory / f"{document.file_name(outcome.host)}.json"
        replace(path, to_json(document.host(outcome)))
        # With a thousand hosts the fleet's report takes a second to write: not after each of them. Its own file has the host.
        if time.monotonic() >= self._again or set(self._expected) <= set(self._outcomes):
            begun = time.monotonic()
            self._write()
            self._again = time.monotonic() + PAUSE * (time.monotonic() - begun)
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
        # The pages of an unfinished run would only be thrown away.
        return write(self.directory, whole, self.language) if done else _json(self.directory, whole)


def write(directory: Path, document: dict[str, Any], language: str) -> Path:
    """A report in all its forms; the page's path. Errors: OSError."""
    _json(directory, document)
    replace(directory / "junit.xml", junit.render(document))
    replace(directory / "report.md", pages.markdown(document, language))
    page = directory / "report.html"
    replace(page, pages.html(document, language))
    return page


def _json(directory: Path, document: dict[str, Any]) -> Path:
    path = directory / "report.json"
    replace(path, to_json(document))
    return path
