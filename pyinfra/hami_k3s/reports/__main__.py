"""`python -m hami_k3s.reports merge REPORT... -o DIR`: the reports of several control runs as one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hami_k3s.isolation.verdict import Status
from hami_k3s.reports import merge, run


def main(words: list[str] | None = None) -> int:
    """0 when every host holds, 1 when one does not, 2 when there is nothing that could be merged."""
    parser = argparse.ArgumentParser(prog="python -m hami_k3s.reports")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "merge", help="several runs' reports as one; of a host that is in several the newest counts"
    )
    command.add_argument(
        "reports", nargs="+", type=Path, metavar="REPORT", help="a run's folder, or its report.json"
    )
    command.add_argument(
        "-o", "--output", required=True, type=Path, metavar="DIR", help="folder for the merged reports"
    )
    command.add_argument("--language", choices=("en", "zh"), default="en", help="of the pages (default en)")
    given = parser.parse_args(words)
    try:
        reports = merge.load(given.reports)
        if given.output.resolve() in {report.path.resolve().parent for report in reports}:
            raise merge.MergeError(
                f"{given.output} is the folder of one of the reports; name another one with -o"
            )
        document, notes = merge.merge(reports)
        page = run.write(given.output, document, given.language)
    except (merge.MergeError, OSError) as error:
        print("\n".join(f"Error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 2
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(merge.summary(document, len(reports)))
    if document["rerun"]:
        print(f"look again: {document['rerun']}")
    print(f"report: {page}")
    return 0 if Status(document["outcome"]).holds else 1


if __name__ == "__main__":
    sys.exit(main())
