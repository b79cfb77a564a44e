"""Side by side, on fresh rehearsal nodes: this project, the lab's commands as one script, and an Ansible playbook.

    python -m bench.compare --nodes 1,10,30 [--card l4]

Prints one table. Every contender gets nodes of its own, freshly booted; the second run is the one that should change nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench import contenders
from bench.contenders import REPOSITORY, Fleet
from bench.measure import Cost, run
from rehearsal import access, cleanup, lifecycle
from rehearsal.state import State

# sshd says so for each command it starts, at this level.
VERBOSE = "echo 'LogLevel VERBOSE' >/etc/ssh/sshd_config.d/bench.conf && systemctl restart ssh"
COUNT = "journalctl -u ssh -o cat | grep -c 'Starting session: command'"


@dataclass(frozen=True)
class Row:
    """One run of one contender."""

    nodes: int
    contender: str
    run: str
    cost: Cost
    commands: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="1,10", help="numbers of nodes, with commas (default 1,10)")
    parser.add_argument("--card", default="l4", help="card of each node (default l4)")
    parser.add_argument("--only", default="pyinfra-hami-k3s,shell,ansible", help="contenders, with commas")
    options = parser.parse_args()
    rows: list[Row] = []
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}", flush=True)
    print(" ".join(["python -m bench.compare", *sys.argv[1:]]), flush=True)
    print(f"\n{HEAD}\n{'-' * len(HEAD)}", flush=True)
    for count in map(int, options.nodes.split(",")):
        for contender in options.only.split(","):
            rows += measure(contender, count, options.card)
    for line in factors(rows):
        print(line)
    return 1 if any(row.cost.status for row in rows) else 0


HEAD = (
    f"{'nodes':>5}  {'contender':<17} {'run':<9} {'wall s':>7} {'CPU s':>7} {'MiB':>6} {'commands/host':>13}"
)


def measure(contender: str, count: int, card: str) -> list[Row]:
    """Boot nodes, run the contender twice (ours also verifies), take the nodes down."""
    rows = []
    state = lifecycle.up(f"bench{os.getpid()}", card, 1, count, "root", ())
    try:
        of = contenders.fleet(state.fleet)
        on_all(state, VERBOSE)
        time.sleep(2)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for label in ("first", "second", *(["verify"] if contender == "pyinfra-hami-k3s" else [])):
                command, environment = how(contender, label, of, folder)
                before = counted(state)
                cost = run(command, environment, REPOSITORY, folder / f"{label}.log")
                # The count's own command is one.
                row = Row(count, contender, label, cost, (counted(state) - before) / count - 1)
                rows.append(row)
                print(
                    f"{count:>5}  {contender:<17} {label:<9} {cost.wall_s:>7.1f} {cost.cpu_s:>7.1f} "
                    f"{cost.memory_mib:>6.0f} {row.commands:>13.1f}"
                    + (f"   exit {cost.status}" if cost.status else ""),
                    flush=True,
                )
                if cost.status:
                    print(cost.output[-2000:])
                    break
    finally:
        left = cleanup.down(state)
        if left:
            print("LEFT BEHIND:", *left, file=sys.stderr)
    return rows


def how(contender: str, label: str, of: Fleet, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command of a contender."""
    if contender == "pyinfra-hami-k3s":
        command, environment = contenders.pyinfra(
            of, "deploys/verify.py" if label == "verify" else "deploys/gpu_node.py"
        )
        if label == "verify":
            command += ["--data", f"report_folder={folder}/reports"]
        return [*command, "--parallel", str(max(len(of.hosts), 1))], environment
    return contenders.shell(of, folder) if contender == "shell" else contenders.ansible(of, folder)


def on_all(state: State, command: str) -> list[str]:
    """Run on every node, all at once; their outputs."""
    running = [
        subprocess.Popen(
            [*access.ssh_command(state, name, "root"), command], stdout=subprocess.PIPE, text=True
        )
        for name in state.read()["ports"]
    ]
    return [process.communicate()[0] for process in running]


def counted(state: State) -> int:
    """SSH commands that all nodes' sshd have started so far."""
    return sum(int(output.strip() or 0) for output in on_all(state, COUNT))


def factors(rows: list[Row]) -> list[str]:
    """How many times longer the others took for the second run."""
    lines = [""]
    for count in sorted({row.nodes for row in rows}):
        seconds = {
            (row.contender, row.run): row.cost.wall_s
            for row in rows
            if row.nodes == count and not row.cost.status
        }
        ours = seconds.get(("pyinfra-hami-k3s", "second"))
        for other in ("shell", "ansible"):
            theirs = seconds.get((other, "second"))
            if ours and theirs:
                lines.append(
                    f"{count} nodes, second run: {other} takes {theirs / ours:.1f} times as long as pyinfra-hami-k3s"
                )
        first, plain = seconds.get(("pyinfra-hami-k3s", "first")), seconds.get(("shell", "first"))
        if first and plain:
            lines.append(
                f"{count} nodes, first run: pyinfra-hami-k3s takes {first / plain:.2f} times as long as shell"
            )
    return lines


if __name__ == "__main__":
    sys.exit(main())
