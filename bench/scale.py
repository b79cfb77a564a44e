"""What the control side needs for each further host: CPU, memory, open files. For docs/fleets.md.

    python -m bench.scale --hosts 1,100,300 [--nodes 4]

The inventory names each of a few rehearsal nodes many times, which deploys/preflight.py does not mind: it changes nothing and
takes no lock. Every name is a connection and a host of its own to pyinfra; the nodes' own work is not looked at.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench import contenders, nodes
from bench.contenders import REPOSITORY, Fleet
from bench.measure import run
from rehearsal import cleanup, lifecycle

# sshd lets ten strangers in at a time, and here many come from one address.
ROOM = "echo 'MaxStartups 1000' >/etc/ssh/sshd_config.d/scale.conf && systemctl reload ssh"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--hosts", default="1,100,300", help="numbers of hosts, with commas (default 1,100,300)"
    )
    parser.add_argument("--nodes", type=int, default=4, help="nodes that play them (default 4)")
    options = parser.parse_args()
    state = lifecycle.up(f"scale{os.getpid()}", "l4", 1, options.nodes, "root", ())
    try:
        nodes.on_all(state, ROOM)
        fleet = contenders.fleet(state.fleet)
        print(f"{'hosts':>5} {'wall s':>7} {'CPU s':>7} {'MiB':>6} {'open files':>10}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for count in map(int, options.hosts.split(",")):
                one(fleet, count, Path(folder))
    finally:
        left = cleanup.down(state)
        if left:
            print("LEFT BEHIND:", *left, file=sys.stderr)
    return 0


def one(fleet: Fleet, count: int, folder: Path) -> None:
    """Preflight of so many hosts."""
    hosts = []
    for number in range(count):
        host = {**fleet.hosts[number % len(fleet.hosts)], **fleet.settings}
        hosts.append((f"{host.pop('name')}-{number}", host))
    inventory = folder / "inventory.py"
    inventory.write_text(f"nodes = {hosts!r}\n")
    command = [contenders.program("pyinfra"), str(inventory), "deploys/preflight.py", "-y"]
    command += ["--parallel", str(count), "--data", f"report_folder={folder}/reports"]
    cost = run(command, {"PYINFRA_PROGRESS": "off"}, REPOSITORY, folder / "log")
    print(
        f"{count:>5} {cost.wall_s:>7.1f} {cost.cpu_s:>7.2f} {cost.memory_mib:>6.0f} {cost.files:>10}",
        flush=True,
    )
    if cost.status:
        print(cost.output[-2000:])


if __name__ == "__main__":
    sys.exit(main())
