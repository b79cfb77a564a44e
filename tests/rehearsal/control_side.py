"""The control side of a rehearsal's network: commands that reach the mirror by its name, and a count of what crosses it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rehearsal import inside, network
from tests.rehearsal.mirror_runs import REPOSITORY

# Every frame that carries an address of the node, but SSH's: {"tcp 10.77.0.1:443": 3}. Ends at SIGTERM.
SNIFF = """
import json, signal, socket, struct, sys
seen, wanted, ssh = {}, socket.inet_aton(sys.argv[1]), 0
def end(*_):
    print(json.dumps({"ssh": ssh, "other": seen})); sys.exit()
signal.signal(signal.SIGTERM, end)
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
print("ready", flush=True)
while True:
    frame = tap.recv(2048)
    if frame[12:14] == b"\\x86\\xdd":
        continue
    if frame[12:14] != b"\\x08\\x00" or wanted not in (frame[26:30], frame[30:34]):
        continue
    head = 14 + (frame[14] & 15) * 4
    ports = struct.unpack("!HH", frame[head:head + 4]) if frame[23] in (6, 17) else (0, 0)
    if frame[23] == 6 and 22 in ports:
        ssh += 1
        continue
    name = f"{frame[23]} {socket.inet_ntoa(frame[26:30])}:{ports[0]} -> {socket.inet_ntoa(frame[30:34])}:{ports[1]}"
    seen[name] = seen.get(name, 0) + 1
"""


def fleet(node: Any, path: Path, drop: tuple[str, ...] = (), **settings: Any) -> Path:
    """The rehearsal's fleet file with one host, further settings, and without some."""
    content = yaml.safe_load(node.fleet.read_text())
    content["hosts"] = [host for host in content["hosts"] if host["name"] == node.name]
    content["settings"] = {k: v for k, v in {**content["settings"], **settings}.items() if k not in drop}
    path.write_text(yaml.safe_dump(content))
    return path


def releases(node: Any, folder: Path, fleet_file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m hami_k3s.releases` where the mirror can be reached; the lock is folder/lock.yaml."""
    return subprocess.run(
        inside.command(node.state, [sys.executable, "-m", "hami_k3s.releases", *words]),
        cwd=REPOSITORY,
        env={
            **inside.environment(node.state),
            "PYTHONPATH": str(REPOSITORY / "pyinfra"),
            "GPU_FLEET": str(fleet_file),
            "GPU_LOCK": str(folder / "lock.yaml"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


@contextlib.contextmanager
def traffic(node: Any) -> Iterator[dict[str, Any]]:
    """Filled at the end of the `with`: SSH's frames, and all others of the node by sender and receiver."""
    address = next(one["address"] for one in node.state.read()["nodes"] if one["name"] == node.name)
    space = f"/run/netns/{network.namespace(node.state.name)}"
    sniffer = subprocess.Popen(
        ["nsenter", f"--net={space}", "--", sys.executable, "-c", SNIFF, address],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert sniffer.stdout is not None
    assert sniffer.stdout.readline() == "ready\n"
    seen: dict[str, Any] = {}
    try:
        yield seen
    finally:
        sniffer.send_signal(signal.SIGTERM)
        seen.update(json.loads(sniffer.communicate(timeout=10)[0]))
