"""Up, down and live faults of one rehearsal."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rehearsal import base, cgroups, faults, keys, network, node, parts, www
from rehearsal.errors import RehearsalError
from rehearsal.profiles import PROFILES, cards
from rehearsal.state import State, names, replace, require, root

BOOT_SECONDS = 90
# What the keeper starts lives in these namespaces and ends with it.
ISOLATE = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc"]
REPOSITORY = Path(__file__).resolve().parent.parent


def up(
    name: str,
    card: str = "rtx-pro-6000",
    count: int = 1,
    nodes: int = 1,
    user: str = "root",
    broken: tuple[str, ...] = (),
) -> State:
    """Boots a rehearsal and returns its state; whatever fails on the way is undone."""
    broken = tuple(faults.check(broken))
    state = State(name)
    if state.folder.exists() or network.exists(name):
        if alive(state):
            raise RehearsalError(
                f"a rehearsal named {name} is up. End it with: python -m rehearsal down --name {name}"
            )
        down(state)
    base.tree(), parts.layer(), keys.folder()
    try:
        _make(state, card, count, nodes, user, broken)
        _start(state)
    except BaseException:
        with quiet_signals():
            tail = _console_tail(state)
            left = down(state)
        if tail:
            print(tail, file=sys.stderr)
        if left:
            print("left behind: " + "; ".join(left), file=sys.stderr)
        raise
    return state


def _make(state: State, card: str, count: int, nodes: int, user: str, broken: tuple[str, ...]) -> None:
    """State first, then everything in it."""
    state.folder.mkdir(mode=0o700)
    short = "rtx" if card.startswith("rtx-pro") else card
    members: list[dict[str, Any]] = [
        {
            "name": f"{short}-{number + 1}",
            "profile": card,
            "driver": PROFILES[card].driver,
            "address": network.node_address(number),
            "cards": cards(card, count, f"{short}-{number + 1}"),
            "faults": list(broken),
        }
        for number in range(nodes)
    ]
    state.write(name=state.name, user=user, faults=list(broken), nodes=members, started=time.time())
    state.data.mkdir(parents=True)
    replace(
        state.folder / "mirror-faults.json",
        json.dumps([f for f in broken if faults.name_of(f) in faults.MIRROR]),
    )
    state.write(chart_sha256=www.assemble(state.folder / "www"))
    keys.run(
        [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "rehearsal",
            "-f",
            str(state.folder / "id_ed25519"),
        ]
    )
    public = (state.folder / "id_ed25519.pub").read_text()
    hosts = "".join(f"{one['address']} {one['name']}\n" for one in members)
    for one in members:
        one["host_key"] = node.prepare(state, one, public, hosts)
    state.write(nodes=members)
    network.create(state.name)


def _start(state: State) -> None:
    """The keeper, detached; then known_hosts and the fleet file, then every node's SSH."""
    log = (state.folder / "keeper.log").open("ab")
    keeper = subprocess.Popen(
        [*ISOLATE, sys.executable, "-m", "rehearsal.keeper", state.name],
        cwd="/",
        env=dict(os.environ, PYTHONPATH=str(REPOSITORY)),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    log.close()
    deadline = time.monotonic() + BOOT_SECONDS
    while "ports" not in state.read():
        if keeper.poll() is not None or time.monotonic() > deadline:
            said = (state.folder / "keeper.log").read_text()[-1500:]
            raise RehearsalError(f"the rehearsal's keeper did not start:\n{said}")
        time.sleep(0.05)
    content = state.read()
    known = [f"[127.0.0.1]:{content['ports'][one['name']]} {one['host_key']}\n" for one in content["nodes"]]
    (state.folder / "known_hosts").write_text("".join(known))
    state.fleet.write_text(yaml.safe_dump(fleet(state), sort_keys=False))
    for one in content["nodes"]:
        while ssh(
            state, one["name"], ["systemctl is-system-running --wait >/dev/null; true"], quiet=True
        ).returncode:
            if keeper.poll() is not None or time.monotonic() > deadline:
                raise RehearsalError(f"node {one['name']} did not answer on SSH within {BOOT_SECONDS} s")
            time.sleep(0.3)


def fleet(state: State) -> dict[str, Any]:
    """The fleet file's content."""
    content, mirror = state.read(), f"https://{keys.MIRROR_NAME}"
    hosts = [
        {
            "name": one["name"],
            "ssh_hostname": "127.0.0.1",
            "ssh_port": content["ports"][one["name"]],
            "ssh_user": content["user"],
            "ssh_key": str(state.folder / "id_ed25519"),
            "ssh_known_hosts_file": str(state.folder / "known_hosts"),
        }
        for one in content["nodes"]
    ]
    settings = {
        "toolkit_repository_url": f"{mirror}/libnvidia-container",
        "toolkit_key_fingerprint": keys.fingerprint(),
        "k3s_release_url": f"{mirror}/k3s-io/k3s/releases/download",
        "helm_release_url": mirror,
        "hami_chart_repository": f"{mirror}/HAMi",
        "hami_chart_sha256": content["chart_sha256"],
    }
    return {"hosts": hosts, "settings": settings}


def ssh_command(state: State, node_name: str, user: str | None = None) -> list[str]:
    """`ssh` for a node, with the rehearsal's key and known hosts and nothing of the caller's configuration."""
    content = state.read()
    if node_name not in content.get("ports", {}):
        raise RehearsalError(
            f"no node named {node_name}: {', '.join(content.get('ports', {})) or 'none is up'}"
        )
    options = [
        "-F",
        "none",
        "-i",
        str(state.folder / "id_ed25519"),
        "-o",
        "IdentitiesOnly=yes",
        "-o",
        "ConnectTimeout=5",
    ]
    options += ["-o", f"UserKnownHostsFile={state.folder / 'known_hosts'}", "-o", "StrictHostKeyChecking=yes"]
    options += [
        "-o",
        "GlobalKnownHostsFile=none",
        "-o",
        "LogLevel=ERROR",
        "-p",
        str(content["ports"][node_name]),
    ]
    return ["ssh", *options, f"{user or content['user']}@127.0.0.1"]


def ssh(
    state: State, node_name: str, command: list[str], quiet: bool = False, user: str = "root"
) -> subprocess.CompletedProcess[str]:
    """Runs a command on a node as root and returns what it said."""
    return subprocess.run(
        [*ssh_command(state, node_name, user), *command],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )


def change_faults(
    name: str, only: str | None, add: tuple[str, ...] = (), clear: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    """Switches faults on a running rehearsal (or on one node of it); returns the faults of each node after it."""
    state = require(name)
    content = state.read()
    chosen = [one for one in content["nodes"] if only in (None, one["name"])]
    if not chosen:
        raise RehearsalError(f"no node named {only} in rehearsal {name}")
    lock = any(faults.name_of(f) in ("apt-lock", "all") for f in (*add, *clear))
    content["faults"] = faults.changed(content["faults"], add, clear)
    for one in chosen:
        one["faults"] = faults.changed(one["faults"], add, clear)
        node.describe(state, one)
    state.write(nodes=content["nodes"], faults=content["faults"])
    shared = [f for f in content["faults"] if faults.name_of(f) in faults.MIRROR]
    replace(state.folder / "mirror-faults.json", json.dumps(shared))
    for one in chosen:
        done = ssh(state, one["name"], ["/usr/lib/rehearsal/node-apply", *(["--apt-lock"] if lock else [])])
        if done.returncode:
            raise RehearsalError(f"node {one['name']} could not apply it: {done.stderr[-800:]}")
    return {one["name"]: one["faults"] for one in chosen}


def alive(state: State) -> bool:
    """Whether its keeper runs."""
    return bool(_processes_of(state))


def down(state: State) -> list[str]:
    """Ends a rehearsal, also a half-made one. Returns what is left, in words; empty when nothing is."""
    for pid in {*_processes_of(state), *network.processes(state.name)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 15
    while (network.processes(state.name) or _processes_of(state)) and time.monotonic() < deadline:
        time.sleep(0.05)
    network.delete(state.name)
    problems = [f"process {pid}" for pid in _processes_of(state)]
    problems += [f"mount {target}" for target in _mounts_of(state)]
    problems += [f"control group {group}" for group in cgroups.remove(state.name)]
    if not any(problem.startswith("mount") for problem in problems):  # never delete through a mount
        shutil.rmtree(state.data, ignore_errors=True)
        shutil.rmtree(state.folder, ignore_errors=True)
    for parent in (root(), state.data.parent):
        with contextlib.suppress(OSError):
            parent.rmdir()
    problems += [f"folder {path}" for path in (state.data, state.folder) if path.exists()]
    return problems


def _processes_of(state: State) -> list[int]:
    """The keeper (and its unshare) and nspawn; a node's own processes are found by their control group."""
    marks = (f"--machine={state.name}-".encode(), b"rehearsal.keeper\0" + state.name.encode() + b"\0")
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if any(mark in command for mark in marks):
                    found.append(int(entry.name))
    return found


def _mounts_of(state: State) -> list[str]:
    targets = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [target for target in targets if target.startswith((f"{state.data}/", f"{state.folder}/"))]


def _console_tail(state: State) -> str:
    """The last lines of the nodes' consoles, for a boot that failed."""
    parts_ = []
    for console in sorted(state.folder.glob("*.console")) if state.folder.is_dir() else []:
        lines = console.read_text(errors="replace").splitlines()[-8:]
        parts_.append("\n".join([f"{console.stem}:", *lines]))
    return "\n".join(parts_)


@contextlib.contextmanager
def quiet_signals() -> Iterator[None]:
    """Cleaning up is not interrupted a second time."""
    before = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listing() -> list[dict[str, Any]]:
    """Every rehearsal with its nodes, ports and faults."""
    found = []
    for name in names():
        state = State(name)
        content = state.read()
        found.append({"name": name, "alive": alive(state), "fleet": str(state.fleet), **content})
    return found
