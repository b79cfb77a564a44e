"""The one binary that is k3s, kubectl, crictl and ctr, by its first argument or by the name it is called with."""

import asyncio
import http.client
import json
import os
import socket
import sys

from . import config, containerd, log, paths
from ._version import COMMIT, VERSION

USAGE = """NAME:
   k3s - Kubernetes, but small and simple

USAGE:
   k3s [global options] command [command options] [arguments...]

COMMANDS:
   server   Run management server
   agent    Run node agent
   kubectl  Run kubectl
   crictl   Run crictl
   ctr      Run ctr
   etcd-snapshot  Manage etcd snapshots
"""


def main() -> int:
    name = os.path.basename(sys.argv[0])
    arguments = sys.argv[1:] if name not in ("kubectl", "crictl", "ctr") else [name, *sys.argv[1:]]
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command in ("--version", "-v", "version"):
        print(f"k3s version {VERSION} ({COMMIT})\ngo version go1.25.5")
        return 0
    if command == "kubectl":
        return kubectl(rest)
    if command == "crictl":
        return crictl(rest)
    if command == "ctr":
        return ctr(rest)
    if command == "etcd-snapshot":
        from . import snapshot

        return snapshot.main(rest)
    if command == "server":
        return server(rest)
    if command == "agent":
        return agent(rest)
    print(USAGE)
    return 0 if command in ("", "help", "--help", "-h") else 1


def _help(arguments: list[str], title: str, known: set[str]) -> bool:
    if "--help" not in arguments and "-h" not in arguments:
        return False
    print(f"NAME:\n   k3s {title}\n\nOPTIONS:")
    print("\n".join(f"   --{flag}" + ("" if flag in config.BOOLEANS else " value") for flag in sorted(known)))
    return True


def agent(arguments: list[str]) -> int:
    if _help(arguments, "agent - Run node agent", config.AGENT):
        return 0
    if os.geteuid() != 0:
        log.fatal("Error: agent must be run as root, or with --rootless")
        return 1
    from .agent import run

    try:
        settings = config.parse(arguments, config.AGENT)
    except config.BadConfigError as broken:
        log.fatal(f"Error: {broken}")
        return 1
    return run(VERSION, settings)


def server(arguments: list[str]) -> int:
    if _help(arguments, "server - Run management server", config.KNOWN):
        return 0
    if os.geteuid() != 0:
        log.fatal("Error: must run as root unless --disable-agent is specified")
        return 1
    from .server import run

    try:
        settings = config.parse(arguments)
    except config.BadConfigError as broken:
        log.fatal(f"Error: {broken}")
        return 1
    return asyncio.run(run(VERSION, settings))


def kubectl(arguments: list[str]) -> int:
    real = paths.on_node(paths.KUBECTL)
    default = paths.on_node(paths.KUBECONFIG)
    if not os.environ.get("KUBECONFIG") and default.exists():  # agents have none
        os.environ["KUBECONFIG"] = str(default)
    if not real.exists():
        print(f"k3s kubectl: {real} is not there", file=sys.stderr)
        return 1
    sys.stdout.flush()
    os.execv(real, ["kubectl", *arguments])


class _Unix(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(self.host)


def crictl(arguments: list[str]) -> int:
    words = [a for a in arguments if not a.startswith("-")]
    if "--version" in arguments or "-v" in arguments:
        print(f"crictl version {VERSION.split('+')[0]}")
        return 0
    if words[:1] != ["info"]:
        print(
            f"crictl: {' '.join(words) or 'no command'}: not played here; `crictl info` is", file=sys.stderr
        )
        return 1
    try:
        connection = _Unix(str(paths.on_node(paths.CONTAINERD_SOCKET)))
        connection.request("GET", "/info", headers={"Host": "containerd"})
        print(json.dumps(json.loads(connection.getresponse().read()), indent=2))
        return 0
    except OSError as refused:
        text = (
            f"validate service connection: dial unix {paths.CONTAINERD_SOCKET}: connect: {refused.strerror}"
        )
        print(f"FATA[0000] {text}", file=sys.stderr)
        return 1


def ctr(arguments: list[str]) -> int:
    if arguments[:1] == ["version"]:
        print(f"Client:\n  Version:  v{containerd.release(VERSION)}\n  Revision: \n  Go version: go1.25.5")
        return 0
    print("ctr: only `ctr version` is played here", file=sys.stderr)
    return 1
