"""One machine: its files over the base tree, and the command that boots it."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from rehearsal import base, faults, keys, network, parts
from rehearsal.state import State, replace

USERS = {"root": "root", "ubuntu": "home/ubuntu"}
OLD_DRIVER = "550.54.15"  # before Blackwell
KEPT_ENVIRONMENT = ("PATH", "LANG")


def describe(state: State, node: dict[str, Any]) -> None:
    """node.json and cards.tsv of a node (live on a running one), from its cards and the faults that concern nodes."""
    concerned = [f for f in node["faults"] if faults.name_of(f) not in faults.MIRROR]
    names = {faults.name_of(f) for f in concerned}
    cards = [] if "no-gpu" in names else [dict(card) for card in node["cards"]]
    driver = OLD_DRIVER if "driver-old" in names else node["driver"]
    for card in cards:
        card["mig"] = "Enabled" if "mig" in names else "Disabled"
    folder = state.node_folder(node["name"])
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for card in cards:
        major, _, minor = str(card["compute_cap"]).partition(".")
        columns = ("uuid", "memory_mib", "reserved_mib", "context_mib")
        row = [*(str(card[c]) for c in columns), major, minor, driver, card["bus_id"], card["name"]]
        rows.append(" ".join(row) + "\n")
    replace(folder / "cards.tsv", "".join(rows))
    shown = {
        "name": node["name"],
        "profile": node["profile"],
        "driver": driver,
        "faults": concerned,
        "cards": cards,
    }
    replace(folder / "node.json", json.dumps(shown, indent=1) + "\n")


def prepare(state: State, node: dict[str, Any], public_key: str, hosts: str) -> str:
    """Writes the node's own files; returns its SSH host key (`ssh-ed25519 AAAA...`)."""
    upper = state.data / node["name"] / "upper"
    for folder in (upper, upper.with_name("work"), upper.with_name("root")):
        folder.mkdir(parents=True, exist_ok=True)
    files = {
        "etc/hostname": node["name"] + "\n",
        "etc/machine-id": uuid.uuid4().hex + "\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {node['name']}\n{network.MIRROR_ADDRESS} {keys.MIRROR_NAME}\n{hosts}",
        # Sorts before Debian's own 80-container-host0.network.
        "etc/systemd/network/10-host0.network": f"[Match]\nName=host0\n[Network]\nAddress={node['address']}/16\n"
        f"Gateway={network.MIRROR_ADDRESS}\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n",
    }
    for path, text in files.items():
        target = upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (upper / "etc/resolv.conf").write_text("")
    for user, home in USERS.items():
        folder = upper / home / ".ssh"
        folder.mkdir(parents=True)
        (folder / "authorized_keys").write_text(public_key)
        folder.chmod(0o700)
        if user == "ubuntu":
            inside = os.stat(base.tree() / home)
            for path in (upper / home, folder, folder / "authorized_keys"):
                os.chown(path, inside.st_uid, inside.st_gid)
        else:
            (upper / home).chmod(0o700)
    ssh = upper / "etc/ssh"
    ssh.mkdir(parents=True)
    host_key = keys.ssh_key(ssh / "ssh_host_ed25519_key", node["name"])
    describe(state, node)
    return " ".join(host_key.split()[:2])


def mount(state: State, name: str) -> Path:
    """Mounts the node's root in the calling process's mount namespace; returns where."""
    folder = state.data / name
    lower = f"{parts.layer()}:{base.tree()}"
    options = f"lowerdir={lower},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    keys.run(["mount", "-t", "overlay", "overlay", "-o", options, str(folder / "root")])
    return folder / "root"


def boot_command(state: State, name: str, root: Path) -> list[str]:
    """systemd-nspawn for a mounted node, to be started inside the rehearsal's network namespace."""
    command = ["systemd-nspawn", "--quiet", "--boot", f"--directory={root}", f"--machine={state.name}-{name}"]
    command += [f"--hostname={name}", "--register=no", f"--network-bridge={network.BRIDGE}", "--console=pipe"]
    command += ["--resolv-conf=off", "--timezone=off", "--link-journal=no", "--kill-signal=SIGRTMIN+3"]
    command += [
        f"--bind-ro={base.tree()}:/usr/lib/rehearsal/image",
        f"--bind-ro={state.node_folder(name)}:/etc/rehearsal",
    ]
    command.append("--keep-unit")  # its group is ready, see cgroups.py
    return command


def boot_environment() -> dict[str, str]:
    """Few variables, and cgroup v2 inside also where this machine is hybrid (kubelet needs v2)."""
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return kept | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
