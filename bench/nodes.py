"""What the nodes of a rehearsal have spent: CPU seconds, and SSH commands that their sshd has started."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rehearsal import access
from rehearsal.state import State

# sshd says so for each command it starts, at this level.
_VERBOSE = "echo 'LogLevel VERBOSE' >/etc/ssh/sshd_config.d/bench.conf && systemctl restart ssh"
_COUNT = "journalctl -u ssh -o cat | grep -c 'Starting session: command'"


def prepare(state: State) -> None:
    """Let sshd count."""
    on_all(state, _VERBOSE)


def commands(state: State) -> float:
    """SSH commands per node so far; the one that counts is among them."""
    counts = [int(output.strip() or 0) for output in on_all(state, _COUNT)]
    return sum(counts) / len(counts)


def cpu(state: State) -> float:
    """CPU seconds that each node has used so far, on average; control groups v2 count them."""
    spent = []
    for one in state.read()["nodes"]:
        for root in Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"):
            for top in f"hami-{state.name}", f"system.slice/hami-{state.name}.scope":
                file = root / top / one["name"] / "cpu.stat"
                if file.exists():
                    spent.append(int(file.read_text().split()[1]) / 1e6)
    return sum(spent) / len(spent) if spent else 0.0


def on_all(state: State, command: str) -> list[str]:
    """Run on every node, all at once; their outputs."""
    running = [
        subprocess.Popen(
            [*access.ssh_command(state, name, "root"), command], stdout=subprocess.PIPE, text=True
        )
        for name in state.read()["ports"]
    ]
    return [process.communicate()[0] for process in running]
