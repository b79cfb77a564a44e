"""Reports of several control runs as one: a host that is in several counts as its newest reading says. Pure but for `load`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hami_k3s.isolation.verdict import Status, worst_of
from hami_k3s.reports import schema
from hami_k3s.reports.run import UNFINISHED

MOST = 5  # problems shown of one file


class MergeError(ValueError):
    """Files that are no reports, each with what is wrong and where."""


@dataclass(frozen=True)
class Report:
    """A checked report.json."""

    path: Path
    document: dict[str, Any]


def load(paths: Sequence[Path]) -> list[Report]:
    """Reports from their files, or from folders that hold a report.json. Errors: MergeError, of all files at once."""
    found, wrong = [], []
    for path in paths:
        file = path / "report.json" if path.is_dir() else path
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            wrong.append(f"{file}: {error.strerror}; name a run's folder or its report.json")
            continue
        except ValueError as error:
            wrong.append(f"{file}: not JSON: {error}")
            continue
        version = document.get("schema_version") if isinstance(document, dict) else None
        mine = schema.schema()["properties"]["schema_version"]["const"]
        if isinstance(version, int) and version != mine:
            wrong.append(
                f"{file}: schema_version {version}, this release reads {mine}; verify again with this release"
            )
            continue
        problems = list(schema.problems(document))
        wrong += [f"{file}: {problem}" for problem in problems[:MOST]]
        if len(problems) > MOST:
            wrong.append(f"{file}: and {len(problems) - MOST} more")
        found.append(Report(file, document))
    if wrong:
        raise MergeError("\n".join(wrong))
    return found


def merge(reports: Sequence[Report]) -> tuple[dict[str, Any], list[str]]:
    """(one document of the same form, what its reader should know about how it came to be)."""
    chosen: dict[str, tuple[Report, dict[str, Any]]] = {}
    notes = []
    for report in reports:
        for host in report.document["hosts"]:
            name = host["host"]
            if name not in chosen:
                chosen[name] = (report, host)
                continue
            notes += _other_machine(*chosen[name], report, host)
            if _moment(report, host) >= _moment(*chosen[name]):
                chosen[name] = (report, host)
    hosts = [host for _, host in chosen.values()]
    unfinished = [host["host"] for host in hosts if host["trouble"] == UNFINISHED]
    newest = max(reports, key=lambda report: report.document["started"] or "")
    if any(report.document["tolerances"] != newest.document["tolerances"] for report in reports):
        notes.append(f"not all were judged with the same tolerances; those of {newest.path} are shown")
    moments = [host["finished"] for host in hosts if host["finished"]]
    document = {
        "schema_version": newest.document["schema_version"],
        "started": min(
            (report.document["started"] for report in reports if report.document["started"]), default=None
        ),
        "finished": max(moments, default=None) if not unfinished else None,
        "complete": not unfinished,
        "trouble": "interrupted" if unfinished else "",
        "outcome": worst_of(Status(host["outcome"]) for host in hosts).value,
        "counts": {status.value: sum(host["counts"][status.value] for host in hosts) for status in Status},
        "rerun": _again(chosen),
        "tolerances": newest.document["tolerances"],
        "hosts": hosts,
    }
    return document, notes


def summary(document: dict[str, Any], reports: int) -> str:
    """One line for the terminal."""
    hosts = document["hosts"]
    words = [f"{count} {word}" for word in Status if (count := sum(one["outcome"] == word for one in hosts))]
    return f"{reports} reports, {len(hosts)} hosts: {document['outcome']} ({', '.join(words)})"


def _moment(report: Report, host: dict[str, Any]) -> str:
    """When this was known of the host. A host that was not reached has no time of its own."""
    return str(host["finished"] or host["started"] or report.document["started"] or "")


def _cards(host: dict[str, Any]) -> set[str]:
    return {card["uuid"] for card in host["cards"] if card["uuid"]}


def _other_machine(first: Report, mine: dict[str, Any], second: Report, theirs: dict[str, Any]) -> list[str]:
    if not _cards(mine) or not _cards(theirs) or _cards(mine) & _cards(theirs):
        return []
    return [
        f"{mine['host']} has other cards in {first.path} than in {second.path}: if these are two machines, one of them is "
        "missing here; give every machine of all fleets a name of its own"
    ]


def _again(chosen: dict[str, tuple[Report, dict[str, Any]]]) -> str | None:
    """Each run's own command, for those of its hosts that do not hold."""
    commands = []
    for report in dict.fromkeys(id(report) for report, _ in chosen.values()):
        mine = [(one, host) for one, host in chosen.values() if id(one) == report]
        bad = {host["host"] for _, host in mine if not Status(host["outcome"]).holds}
        rerun = mine[0][0].document["rerun"]
        if bad and rerun:
            commands.append(_only(rerun, bad))
    return "; ".join(commands) or None


def _only(command: str, hosts: set[str]) -> str:
    """The command without --limit for other hosts."""
    kept: list[str] = []
    for word in shlex.split(command):
        if kept and kept[-1] == "--limit" and word not in hosts:
            kept.pop()
        else:
            kept.append(word)
    # VARIABLE=value must stay what it is for the shell.
    quoted = [shlex.quote(word) for word in kept]
    for number, word in enumerate(kept):
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            break
        quoted[number] = f"{name}={shlex.quote(value)}"
    return " ".join(quoted)
