"""Up, down and live faults of one rehearsal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from rehearsal import (
    access,
    base,
    breakage,
    cache,
    cgroups,
    cleanup,
    faults,
    keys,
    limits,
    network,
    node,
    parts,
    plan,
    www,
)
from rehearsal.errors import RehearsalError
from rehearsal.profiles import PROFILES
from rehearsal.state import State, names, replace, require

BOOT_SECONDS = 90
# What the keeper starts lives in these namespaces and ends with it.
ISOLATE = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc"]
REPOSITORY = Path(__file__).resolve().parent.parent


def prepare() -> None:
    """Fills the cache; takes no time when it is full."""
    base.tree(), parts.layer(), www.downloads()


def up(
    name: str,
    card: str = "rtx-pro-6000",
    count: int = 1,
    nodes: int = 1,
    user: str = "root",
    broken: tuple[str, ...] = (),
    profiles: tuple[str, ...] = (),
    fleet: Path | None = None,
) -> State:
    """Boots a rehearsal and returns its state; whatever fails on the way is undone.

    + profiles: one node for each, in place of `nodes`: a card, or a broken host that preflight names (breakage.py)
    + fleet: a file that describes hosts and clusters (plan.py), in place of the others
    """
    broken = tuple(faults.check(broken))
    if any(faults.name_of(f) == "cut" for f in broken):
        raise RehearsalError("a node cannot boot with its network cut; add that fault to one that runs")
    planned = plan.read(fleet, broken) if fleet else None
    state = State(name)
    with cache.locked(f"up-{name}"):
        if state.folder.exists() or network.exists(name):
            if cleanup.alive(state):
                raise RehearsalError(
                    f"a rehearsal named {name} is up. End it with: python -m rehearsal down --name {name}"
                )
            cleanup.down(state)  # one that was killed
        prepare()
        try:
            members = planned.members if planned else _members(card, count, nodes, broken, profiles)
            _make(state, members, user, broken, planned.shape if planned else None)
            _start(state)
        except BaseException:
            with cleanup.quiet_signals():
                tail, left = cleanup.console_tail(state), cleanup.down(state)
            for line in filter(None, [tail, left and "left behind: " + "; ".join(left)]):
                print(line, file=sys.stderr)
            raise
    return state


def _members(
    card: str, count: int, nodes: int, broken: tuple[str, ...], profiles: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The nodes of a rehearsal: name, card and faults of each."""
    short = "rtx" if card.startswith("rtx-pro") else card
    wanted = [(f"{short}-{number + 1}", card, list(broken)) for number in range(nodes)]
    if profiles:
        wanted = []
        for number, profile in enumerate(profiles):
            name = faults.name_of(profile)
            model = name if name in PROFILES else breakage.CARD.get(name, card)
            own = [] if name in PROFILES else [profile]
            wanted.append((f"{name}-{number + 1}", model, faults.check([*broken, *own])))
    return [plan.member(n, name, model, count, own) for n, (name, model, own) in enumerate(wanted)]


def _make(
    state: State,
    members: list[dict[str, Any]],
    user: str,
    broken: tuple[str, ...],
    shape: dict[str, Any] | None,
) -> None:
    """State first, then everything in it."""
    state.folder.mkdir(mode=0o700)
    state.write(name=state.name, user=user, faults=list(broken), nodes=members, started=time.time())
    state.write(shape=shape)
    state.data.mkdir(parents=True)
    replace(
        state.folder / "mirror-faults.json",
        json.dumps([f for f in broken if faults.name_of(f) in faults.MIRROR]),
    )
    state.write(chart_sha256=www.assemble(state.folder / "www"))
    public = keys.ssh_key(state.folder / "id_ed25519", "rehearsal")
    hosts = "".join(f"{one['address']} {one['name']}\n" for one in members)
    for one in members:
        one["host_key"] = node.prepare(state, one, public, hosts)
    state.write(nodes=members)
    network.create(state.name)


def _start(state: State) -> None:
    """The keeper, detached; then known_hosts and the fleet file, then every node's SSH."""
    limits.lift()
    log = (state.folder / "keeper.log").open("ab")
    keeper = subprocess.Popen(
        [*cgroups.launcher(state.name), *ISOLATE, sys.executable, "-m", "rehearsal.keeper", state.name],
        cwd=state.folder.parent.parent,
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
    state.fleet.write_text(yaml.safe_dump(access.fleet(state), sort_keys=False))
    for one in content["nodes"]:
        while access.ssh(
            state, one["name"], ["systemctl is-system-running --wait >/dev/null; true"], quiet=True
        ).returncode:
            if keeper.poll() is not None:
                raise RehearsalError(f"node {one['name']} stopped while it booted; its last words are above")
            if time.monotonic() > deadline:
                raise RehearsalError(f"node {one['name']} did not answer on SSH within {BOOT_SECONDS} s")
            time.sleep(0.3)


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
    before = {one["name"]: _is_cut(one) for one in chosen}
    for one in chosen:
        one["faults"] = faults.changed(one["faults"], add, clear)
        node.describe(state, one)
    state.write(nodes=content["nodes"], faults=content["faults"])
    shared = [f for f in content["faults"] if faults.name_of(f) in faults.MIRROR]
    replace(state.folder / "mirror-faults.json", json.dumps(shared))
    for one in chosen:
        if _is_cut(one) != before[one["name"]]:
            network.connect(name, one["name"], before[one["name"]])
        if _is_cut(one):  # nothing can be said to it; its own side is told when it is back
            continue
        done = access.ssh(
            state, one["name"], ["/usr/lib/rehearsal/node-apply", *(["--apt-lock"] if lock else [])]
        )
        if done.returncode:
            raise RehearsalError(f"node {one['name']} could not apply it: {done.stderr[-800:]}")
    return {one["name"]: one["faults"] for one in chosen}


def _is_cut(one: dict[str, Any]) -> bool:
    return any(faults.name_of(f) == "cut" for f in one["faults"])


def listing() -> list[dict[str, Any]]:
    """Every rehearsal with its nodes, ports and faults."""
    found = []
    for name in names():
        state = State(name)
        content = state.read()
        found.append({"name": name, "alive": cleanup.alive(state), "fleet": str(state.fleet), **content})
    return found
