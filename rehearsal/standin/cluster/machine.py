"""The machine under this node: its cards and the faults switched on, read from node.json each time it is asked."""

import json
import os
import socket
from pathlib import Path
from typing import Any

from . import paths


def read() -> dict[str, Any]:
    try:
        return json.loads(paths.on_node(paths.NODE_JSON).read_text())
    except (OSError, ValueError):
        return {}


def fault(name: str) -> str | None:
    """The value of a fault that is on ("" when it has none), None when it is off."""
    for entry in read().get("faults") or []:
        key, _, value = str(entry).partition("=")
        if key == name:
            return value
    return None


def cards() -> list[dict[str, Any]]:
    """Cards the driver shows; none where the driver is not installed."""
    if fault("no-gpu") is not None or not paths.on_node("/usr/bin/nvidia-smi").exists():
        return []
    return list(read().get("cards") or [])


def hostname() -> str:
    return socket.gethostname().split(".")[0].lower()


def address() -> str:
    """The address that the default route leaves from; loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def online() -> bool:
    """Is there a way to a registry? On a node one leads to the mirror by its name, or through a proxy."""
    if not paths.ROOT:
        known = "mirror.rehearsal" in Path("/etc/hosts").read_text() or "HTTPS_PROXY" in os.environ
        return known and routed()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return False
    return True


def routed() -> bool:
    """Has the kernel a default route? Outside of a node that does not matter."""
    lines = Path("/proc/net/route").read_text().splitlines()[1:]
    return bool(paths.ROOT) or any(line.split()[1] == line.split()[7] == "00000000" for line in lines)


NO_ROUTE = 'no default routes found in "/proc/net/route" or "/proc/net/ipv6_route"'


def os_image() -> str:
    try:
        for line in Path("/etc/os-release").read_text().splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.split("=", 1)[1].strip().strip('"')
    except OSError:
        pass
    return "Linux"


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def kernel() -> str:
    return os.uname().release
