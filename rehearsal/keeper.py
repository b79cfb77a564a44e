"""The one process that keeps a rehearsal up: SSH forwarders on loopback, the mirror, and the nodes as its children.

It is process 1 of a pid namespace and has a mount namespace of its own (`up` starts it through unshare): when it ends,
however it ends, the kernel ends the nodes and drops their mounts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rehearsal import cgroups, network, node
from rehearsal.mirror import Mirror
from rehearsal.state import State

REBOOT = 133  # how nspawn says that the node wants to be started again


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: Callable[[], float] = float
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            await asyncio.sleep(late())
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()


def _delay(state: State, name: str) -> float:
    """How late a node's answers are, by its fault slow-node."""
    with contextlib.suppress(OSError, ValueError):
        for fault in json.loads((state.node_folder(name) / "node.json").read_text())["faults"]:
            key, _, value = fault.partition("=")
            if key == "slow-node":
                return float(value or 1)
    return 0.0


async def _forward(
    state: State, name: str, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection from the loopback listener to a node's sshd; refused there is closed here."""
    try:
        inner_reader, inner_writer = await asyncio.open_connection(address, 22)
    except OSError:
        writer.close()
        return
    for end in (writer, inner_writer):
        end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        late = partial(_delay, state, name)
        await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer, late))
    finally:
        writer.close()
        inner_writer.close()


def _listen() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


async def _boot(state: State, name: str) -> None:
    """Runs a node, again after each reboot from inside, until it powers off."""
    root = node.mount(state, name)
    with (state.folder / f"{name}.console").open("wb") as log:
        status = REBOOT
        while status == REBOOT:
            child = await asyncio.create_subprocess_exec(
                *node.boot_command(state, name, root),
                env=node.boot_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(cgroups.join, cgroups.create(state.name, name)),
            )
            status = await child.wait()
        log.write(f"rehearsal: systemd-nspawn exited {status}\n".encode())


async def _serve(state: State, listeners: dict[str, socket.socket]) -> None:
    content = state.read()
    await Mirror(state.folder).start(network.MIRROR_ADDRESS)
    machines = asyncio.gather(*(_boot(state, one["name"]) for one in content["nodes"]))
    for one in content["nodes"]:
        await asyncio.start_server(
            partial(_forward, state, one["name"], one["address"]), sock=listeners[one["name"]]
        )
    state.write(ports={name: listener.getsockname()[1] for name, listener in listeners.items()})
    # Ends when every node powered off, or raises what kept one from starting; a SIGTERM ends it too.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, machines.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await machines


def main(name: str) -> None:
    """`python -m rehearsal.keeper NAME`, started detached by `up`, in new pid and mount namespaces."""
    state = State(name)
    # Bound here, in the machine's own namespace, before this process moves into the rehearsal's.
    listeners = {one["name"]: _listen() for one in state.read()["nodes"]}
    cgroups.join(cgroups.create(name, "keeper"))
    cgroups.share_controllers(name)
    network.enter(name)
    Path("/run/systemd/nspawn").mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/systemd/nspawn"], check=True)
    asyncio.run(_serve(state, listeners))


if __name__ == "__main__":
    main(sys.argv[1])
