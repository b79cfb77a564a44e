"""The trail of a run for a person: a page for later, and at the end of a fleet's run which hosts to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hami_k3s.reports.plain import plain

if TYPE_CHECKING:
    from hami_k3s.reports.trail import Step


def summary(hosts: Mapping[str, tuple[str, str, str]], again: str) -> str:
    """Which hosts did not come to their end, where, why, and the command for only those.

    + hosts: name -> (ok, failed, interrupted or unreachable; operation; reason)
    """
    bad = {name: rest for name, rest in hosts.items() if rest[0] != "ok"}
    lines = ["", f"{len(hosts) - len(bad)} of {len(hosts)} hosts are done, {len(bad)} not:"]
    for name, (word, operation, why) in bad.items():
        where = f"{word} at {operation}" if operation else word
        lines.append(f"  {plain(name)}: {plain(where)}{': ' + plain(why) if why else ''}")
    return "\n".join([*lines, f"again for only those: {again}"])


def markdown(
    result: str,
    about: Mapping[str, Any],
    hosts: Mapping[str, tuple[str, str]],
    reasons: Mapping[str, str],
    steps: Sequence[Step],
    again: str,
) -> str:
    """The text of trail.md."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [
        f"# {about['started']}: {result}",
        "",
        f"    {about['command']}",
        "",
        f"By {about['operator']} (process {about['process']}) in {about['working_directory']}; {versions}.",
        "",
        *_table(
            ("host", "result", "at", "why"), [(n, w, at, reasons.get(n, "")) for n, (w, at) in hosts.items()]
        ),
    ]
    if again:
        lines += ["", "Again for only those that are not done:", "", f"    {again}"]
    rows = [
        (
            f"{step.started:%H:%M:%S}",
            f"{step.seconds:.1f}",
            step.host,
            step.operation,
            step.result,
            " / ".join(step.why),
        )
        for step in steps
    ]
    lines += ["", *_table(("UTC", "s", "host", "operation", "result", "why"), rows)]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[plain(cell).replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in [head, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], f"|{'---|' * len(head)}", *lines[1:]]
