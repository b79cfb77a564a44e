"""How to reach the nodes of a rehearsal: the fleet file and plain ssh."""

from __future__ import annotations

import subprocess
from typing import Any

from rehearsal import keys
from rehearsal.errors import RehearsalError
from rehearsal.state import State


def fleet(state: State) -> dict[str, Any]:
    """The fleet file's content."""
    content, mirror = state.read(), f"https://{keys.MIRROR_NAME}"
    hosts = [_host(state, content, one["name"]) for one in content["nodes"]]
    settings = {
        "toolkit_repository_url": f"{mirror}/libnvidia-container",
        "toolkit_key_fingerprint": keys.fingerprint(),
        "driver_repository_url": f"{mirror}/cuda/repos",
        "driver_key_fingerprint": keys.fingerprint(),
        "k3s_release_url": f"{mirror}/k3s-io/k3s/releases/download",
        "helm_release_url": mirror,
        "hami_chart_repository": f"{mirror}/HAMi",
        "hami_chart_sha256": content["chart_sha256"],
    }
    if content.get("shape"):
        return _clusters(state, content, settings)
    return {"hosts": hosts, "settings": settings}


def _host(state: State, content: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "name": name,
        "ssh_hostname": "127.0.0.1",
        "ssh_port": content["ports"][name],
        "ssh_user": content["user"],
        "ssh_key": str(state.folder / "id_ed25519"),
        "ssh_known_hosts_file": str(state.folder / "known_hosts"),
    }


def _clusters(state: State, content: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The shape that the plan had, with hosts in place of nodes; they reach each other by `k3s_node_ip`."""
    shape = content["shape"]
    addresses = {one["name"]: one["address"] for one in content["nodes"]}

    def host(one: dict[str, Any]) -> dict[str, Any]:
        own = {"k3s_node_ip": addresses[one["node"]], **one["settings"]}
        return {**_host(state, content, one["node"]), **own}

    clusters = [
        {
            **cluster,
            "servers": list(map(host, cluster["servers"])),
            "agents": list(map(host, cluster["agents"])),
        }
        for cluster in shape["clusters"]
    ]
    found = {"hosts": list(map(host, shape["hosts"])), "clusters": clusters}
    return {**{k: v for k, v in found.items() if v}, "settings": settings | shape["settings"]}


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
