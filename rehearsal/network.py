"""One network namespace a rehearsal: a bridge, the mirror's address, and one veth a node that nspawn adds.

Nothing of it is in the machine's own namespace; the way in is a forwarder on a loopback port (see keeper.py).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from rehearsal.keys import run

BRIDGE = "br0"
MIRROR_ADDRESS = "10.77.0.1"
CLONE_NEWNET = 0x40000000


def node_address(number: int) -> str:
    """Address of the node with this number, from 0."""
    return f"10.77.{1 + number // 200}.{10 + number % 200}"


def namespace(name: str) -> str:
    """The namespace's name as `ip netns` shows it."""
    return f"hami-{name}"


def exists(name: str) -> bool:
    """Whether the rehearsal's namespace is there."""
    return Path("/run/netns", namespace(name)).exists()


def create(name: str) -> None:
    """Namespace and bridge. The bridge carries the gateway and the mirror on one address."""
    space = namespace(name)
    run(["ip", "netns", "add", space])
    for command in (
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"addr add {MIRROR_ADDRESS}/16 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ):
        run(["ip", "-n", space, *command.split()])


def connect(name: str, node: str, on: bool) -> None:
    """Plugs a running node's cable into the bridge, or pulls it there: the node sees a link on which nothing answers."""
    where = ["master", BRIDGE] if on else ["nomaster"]
    run(["ip", "-n", namespace(name), "link", "set", "dev", f"vb-{name}-{node}", *where])


def processes(name: str) -> list[int]:
    """Processes whose network is the rehearsal's (a node's own processes have one of their own)."""
    if not exists(name):
        return []
    listing = subprocess.run(
        ["ip", "netns", "pids", namespace(name)], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in listing.stdout.split()]


def delete(name: str) -> None:
    """Removes the namespace and, with it, bridge and veths."""
    if exists(name):
        run(["ip", "netns", "delete", namespace(name)])


def enter(name: str) -> None:
    """Moves this process into the rehearsal's network; sockets it already has stay where they are."""
    descriptor = os.open(f"/run/netns/{namespace(name)}", os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace(name)}")
    finally:
        os.close(descriptor)
