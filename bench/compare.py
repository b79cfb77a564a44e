"""Side by side, on fresh rehearsal nodes: this project, the lab's commands as one script, and an Ansible playbook.

    python -m bench.compare --nodes 1,10,30 [--card l4] [--only shell,ansible] [--keep docs/performance.json]

Prints one table and how the contenders compare. Every contender gets nodes of its own, freshly booted, and runs twice or
more; the later runs are those that should change nothing. With --keep the page and the chart beside that file are made anew.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from bench import contenders, nodes, page
from bench.contenders import REPOSITORY, Fleet
from bench.measure import run
from bench.rows import ANSIBLE, CONVERGE, HEAD, NOOP, OURS, SHELL, VERIFY, Row, factors, keep, machine, median
from rehearsal import cleanup, lifecycle
from rehearsal.state import State


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="1,10", help="numbers of nodes, with commas (default 1,10)")
    parser.add_argument("--card", default="l4", help="card of each node (default l4)")
    parser.add_argument("--only", default=f"{OURS},{SHELL},{ANSIBLE}", help="contenders, with commas")
    parser.add_argument(
        "--repeat", type=int, help="no-op runs, of which the middle one counts (default: 3 on one node)"
    )
    parser.add_argument(
        "--keep", type=Path, help="JSON file for the measurements; the page beside it is made anew"
    )
    options = parser.parse_args()
    about = {
        "machine": machine(),
        "ansible": contenders.ansible_version() if ANSIBLE in options.only else "",
        "command": " ".join(["python -m bench.compare", *sys.argv[1:]]),
    }
    print(
        ", ".join(
            f"{key} {value}" for key, value in {**about["machine"], "ansible": about["ansible"]}.items()
        )
    )
    print(f"{about['command']}\n\n{HEAD}\n{'-' * len(HEAD)}", flush=True)
    rows: list[Row] = []
    for count in map(int, options.nodes.split(",")):
        for contender in options.only.split(","):
            rows += measure(contender, count, options.card, options.repeat or (3 if count == 1 else 1))
    print("", *(factor.line() for factor in factors(rows)), sep="\n")
    if options.keep:
        keep(options.keep, rows, about)
        print("", *page.write(options.keep), sep="\n")
    return 1 if any(row.status for row in rows) else 0


def measure(contender: str, count: int, card: str, repeat: int) -> list[Row]:
    """Boot nodes, run the contender, take the nodes down."""
    rows: list[Row] = []
    state = lifecycle.up(f"bench{os.getpid()}", card, 1, count, "root", ())
    try:
        of = contenders.fleet(state.fleet)
        nodes.prepare(state)
        settle(state)
        with tempfile.TemporaryDirectory() as name:
            for label, times in ((CONVERGE, 1), (NOOP, repeat), (VERIFY, int(contender == OURS))):
                found = [once(state, contender, label, of, Path(name)) for _ in range(times)]
                if found:
                    rows.append(median(found))
                    print(rows[-1].line(), flush=True)
                if any(row.status for row in found):
                    break
    finally:
        left = cleanup.down(state)
        if left:
            print("LEFT BEHIND:", *left, file=sys.stderr)
    return rows


def once(state: State, contender: str, label: str, of: Fleet, folder: Path) -> Row:
    """One run, and what it cost."""
    command, environment = how(contender, label, of, folder)
    commands, spent = nodes.commands(state), nodes.cpu(state)
    cost = run(command, environment, REPOSITORY, folder / f"{label}.log")
    spent = nodes.cpu(state) - spent
    if cost.status:
        print(cost.output[-2000:])
    # The count's own command is one.
    asked = nodes.commands(state) - commands - 1
    return Row(
        nodes=len(of.hosts),
        contender=contender,
        run=label,
        wall_s=round(cost.wall_s, 2),
        cpu_s=round(cost.cpu_s, 2),
        memory_mib=round(cost.memory_mib, 1),
        commands=round(asked, 1),
        host_cpu_s=round(spent, 2),
        status=cost.status,
    )


def how(contender: str, label: str, of: Fleet, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command of a contender."""
    if contender == SHELL:
        return contenders.shell(of, folder)
    if contender == ANSIBLE:
        return contenders.ansible(of, folder)
    deploy = "deploys/verify.py" if label == VERIFY else "deploys/gpu_node.py"
    command, environment = contenders.pyinfra(of, deploy)
    return [
        *command,
        "--data",
        f"report_folder={folder}/reports",
        "--parallel",
        str(len(of.hosts)),
    ], environment


def settle(state: State, most: float = 60) -> None:
    """Wait until freshly booted nodes have nothing more to do, so that no contender pays for it."""
    deadline = time.monotonic() + most
    before = nodes.cpu(state)
    while time.monotonic() < deadline:
        time.sleep(2)
        now = nodes.cpu(state)
        if now - before < 0.05:
            return
        before = now


if __name__ == "__main__":
    sys.exit(main())
