"""`up` as a person sees it, and `run`: the whole job on a node of its own."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rehearsal import access, cleanup, keys, lifecycle
from rehearsal.errors import RehearsalError
from rehearsal.state import State

PYINFRA = Path(sys.executable).with_name("pyinfra")
# One line each: restarts of k3s and new pods are what a second run must not cause.
SNAPSHOT = (
    "systemctl show -p MainPID -p NRestarts k3s; "
    "k3s kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.uid} {.metadata.name}{\"\\n\"}{end}' | sort"
)


def boot(options: argparse.Namespace) -> State:
    """`up` with the options of the command line; says what it boots and how long it took."""
    wanted = f"{options.nodes} node(s) with {options.cards} x {options.card}"
    if options.profile:
        wanted = f"one node each of {' '.join(options.profile)}"
    if options.fleet:
        wanted = f"the fleet of {options.fleet}"
    broken = f", broken on purpose: {' '.join(options.fault)}" if options.fault else ""
    print(f"Booting {wanted}{broken}", flush=True)
    begun = time.monotonic()
    state = lifecycle.up(
        options.name,
        options.card,
        options.cards,
        options.nodes,
        options.user,
        tuple(options.fault),
        tuple(options.profile),
        options.fleet,
    )
    print(f"Up after {time.monotonic() - begun:.0f} s: {' '.join(state.read()['ports'])}", flush=True)
    return state


def say_next(state: State) -> None:
    """The fleet file and the commands to type."""
    own = "" if state.name == "default" else f" --name {state.name}"
    command = os.path.relpath(PYINFRA) if PYINFRA.is_relative_to(Path.cwd()) else str(PYINFRA)
    print(f"""
Fleet file: {state.fleet}
Mirror's CA: {keys.folder() / "ca.crt"} (the nodes trust it already)

  GPU_FLEET={state.fleet} {command} inventory.py deploys/gpu_node.py
  GPU_FLEET={state.fleet} {command} inventory.py deploys/verify.py
  python -m rehearsal ssh{own}
  python -m rehearsal fault{own} add|clear FAULT
  python -m rehearsal down{own}""")


def _pyinfra(state: State, deploy: str) -> str:
    """Runs and shows one command as a person would type it; its output, or an error when it failed."""
    if not PYINFRA.exists():
        raise RehearsalError(
            f"{PYINFRA} is not there: install the project into this Python first (pip install -e .)"
        )
    print(f"\n$ GPU_FLEET={state.fleet} pyinfra inventory.py {deploy} -y", flush=True)
    process = subprocess.Popen(
        [str(PYINFRA), "inventory.py", deploy, "-y"],
        cwd=lifecycle.REPOSITORY,
        env=dict(os.environ, GPU_FLEET=str(state.fleet), PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            print(line, end="", flush=True)
        status = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if status:
        raise RehearsalError(f"`pyinfra inventory.py {deploy}` exited {status}")
    return "".join(lines)


def changes(output: str) -> tuple[int, int]:
    """(operations, of them changed) from pyinfra's result table, summed over its "Grand total" line.

    The columns there are hosts or operations, success, error and no change; an operation that was executed and is not
    under "No Change" changed something.
    """
    for line in reversed(output.splitlines()):
        if "Grand total" in line:
            numbers = [
                0 if word == "-" else int(word)
                for word in line.split("Grand total")[1].split()
                if _number(word)
            ]
            if len(numbers) >= 4:
                success, error, unchanged = numbers[-3:]
                return success + error + unchanged, success + error
    raise RehearsalError("pyinfra printed no result table, so what changed cannot be told")


def _number(word: str) -> bool:
    return word == "-" or word.isdigit()


def _snapshot(state: State) -> dict[str, str]:
    taken = {}
    for name in state.read()["ports"]:
        done = access.ssh(state, name, [SNAPSHOT])
        if done.returncode or "MainPID=0" in done.stdout or "MainPID" not in done.stdout:
            raise RehearsalError(
                f"{name}: k3s is not running after the first run: {done.stdout}{done.stderr}"
            )
        taken[name] = done.stdout
    return taken


def rehearse(options: argparse.Namespace) -> int:
    """Boots, installs twice, verifies, and takes everything down again, however it ends."""
    begun, steps = time.monotonic(), []
    state: State | None = None

    def took(what: str, since: float) -> None:
        steps.append(f"  {what:<58} {time.monotonic() - since:6.1f} s")

    try:
        mark = time.monotonic()
        state = boot(options)
        took("boot", mark)
        mark = time.monotonic()
        _pyinfra(state, "deploys/gpu_node.py")
        took("first run of gpu_node.py", mark)
        before, mark = _snapshot(state), time.monotonic()
        operations, changed = changes(_pyinfra(state, "deploys/gpu_node.py"))
        if changed:
            raise RehearsalError(f"the second run changed something: {changed} of {operations} operations")
        if _snapshot(state) != before:
            raise RehearsalError("the second run restarted k3s or a pod")
        took(f"second run: {operations} operations, no change, no restart", mark)
        mark = time.monotonic()
        _pyinfra(state, "deploys/verify.py")
        took("verify.py", mark)
    finally:
        if state is not None and not options.keep:
            with cleanup.quiet_signals():
                left = cleanup.down(state)
            steps.append(
                "  down: " + ("nothing left behind" if not left else "LEFT BEHIND: " + "; ".join(left))
            )
        if steps:
            print(
                "\nRehearsal\n" + "\n".join([*steps, f"  {'total':<58} {time.monotonic() - begun:6.1f} s"]),
                flush=True,
            )
    if options.keep:
        say_next(state)
    return 1 if not options.keep and left else 0
