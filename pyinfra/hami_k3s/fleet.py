"""The fleet file: hosts, clusters of hosts, settings; checked as a whole before anything connects."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml
from pyinfra.connectors.ssh import connector_data_meta

from hami_k3s.settings import is_ours

# An IPv6 address needs brackets only in front of a port.
HOST = re.compile(
    r"(?:(?P<user>[a-zA-Z_][\w.-]*)@)?"
    r"(?:(?P<address>\w[\w.-]*|\[[\da-fA-F:.]+\])(?::(?P<port>\d+))?|(?P<bare>(?:[\da-fA-F]*:){2,}[\da-fA-F.]*))"
)
TOP = ("hosts", "clusters", "settings")
CLUSTER = ("name", "servers", "agents", "settings")
# Said by the place in the file.
PLACED = ("k3s_cluster", "k3s_role")
# Names of pyinfra's groups that the inventory makes itself.
GROUPS = ("all", "gpu_nodes", "servers", "agents")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

Hosts = list[tuple[str, dict[str, Any]]]


class FleetError(SystemExit):
    """Ends the run with exit status 1 and the reason, before anything connects."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Error: {reason}")


def read(path: Path) -> Hosts:
    """(name, data) of every host in the file. Errors: FleetError, naming the file, the place and what to write instead."""
    try:
        fleet = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FleetError(
            f"{path}: {error.strerror}. GPU_FLEET names a YAML file; see fleet.example.yaml"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FleetError(f"{path} is not YAML: {error}\nfleet.example.yaml shows how to write it") from error
    if not isinstance(fleet, dict):
        raise FleetError(
            f"{path}: expected `hosts:`, `clusters:` and `settings:` at the top; see fleet.example.yaml"
        )
    _known(fleet, TOP, str(path), "the top level")
    settings = _settings(fleet, str(path), "settings")
    found = [host(entry, str(path)) for entry in _list(fleet, "hosts", str(path))]
    for cluster in _list(fleet, "clusters", str(path)):
        members = _cluster(cluster, str(path))
        name = members[0][1]["k3s_cluster"]
        if any(data.get("k3s_cluster") == name for _, data in found):
            raise FleetError(f"{path}: cluster {name} is listed twice; write all its hosts in one place")
        found += members
    return [(name, {**settings, **data}) for name, data in found]


def _known(found: dict[str, Any], known: tuple[str, ...], path: str, where: str) -> None:
    if unknown := sorted(set(found) - set(known), key=str):
        names = ", ".join(f"`{key}:`" for key in known)
        raise FleetError(f"{path}: unknown key {unknown[0]!r}; {where} has {names}")


def _settings(found: dict[str, Any], path: str, where: str) -> dict[str, Any]:
    settings = found.get("settings") or {}
    if not isinstance(settings, dict):
        raise FleetError(f"{path}: `{where}:` must be a mapping of setting: value")
    for key in settings:
        if not is_ours(str(key)):
            raise FleetError(f"{path}: {key} under `{where}:` is not a setting; docs/settings.md lists them")
        if key in PLACED:
            raise FleetError(
                f"{path}: {key} under `{where}:`: write the host under a cluster's servers or agents"
            )
    return settings


def _list(found: dict[str, Any], key: str, path: str) -> list[Any]:
    entries = found.get(key) or []
    if not isinstance(entries, list):
        raise FleetError(f"{path}: `{key}:` must be a list; see fleet.example.yaml")
    return entries


def _cluster(found: object, path: str) -> Hosts:
    if not isinstance(found, dict) or not NAME.fullmatch(str(found.get("name", ""))):
        raise FleetError(f"{path}: each of `clusters:` needs a `name:` of a-z, 0-9 and -; given: {found!r}")
    name = str(found["name"])
    if name.replace("-", "_") in GROUPS:
        raise FleetError(f"{path}: a cluster cannot be called {name}: pyinfra has a group of that name")
    _known(found, CLUSTER, path, f"cluster {name}")
    settings = _settings(found, path, f"cluster {name}: settings")
    hosts: Hosts = []
    for key, role in (("servers", "server"), ("agents", "agent")):
        for entry in _list(found, key, path):
            one, data = host(entry, path)
            hosts.append((one, {**settings, **data, "k3s_cluster": name, "k3s_role": role}))
    servers = sum(data["k3s_role"] == "server" for _, data in hosts)
    if not servers:
        raise FleetError(
            f"{path}: cluster {name} has no servers; write one host, or three, under its `servers:`"
        )
    if servers % 2 == 0:
        click.echo(
            f"Warning: cluster {name} has {servers} servers: etcd then bears the loss of no more of them than with "
            f"{servers - 1}. Use an odd number",
            err=True,
        )
    return hosts


def host(entry: object, where: str) -> tuple[str, dict[str, Any]]:
    """`user@address`, `@local`, or a mapping with a name."""
    if entry == "@local":
        return "@local", {} if os.geteuid() == 0 else {"_sudo": True}
    if isinstance(entry, str):
        match = HOST.fullmatch(entry)
        if not match:
            raise FleetError(f"{where}: {entry!r} is not user@address or user@address:port")
        address, port = (match["address"] or match["bare"]).strip("[]"), match["port"]
        user = match["user"]
        data: dict[str, Any] = {"ssh_user": user} if user else {}
        if port:
            data |= {"ssh_port": int(port), "ssh_hostname": address}
        return (f"{address}:{port}" if port else address), _with_sudo(data)
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise FleetError(f"{where}: {entry!r} is not a host: write user@address, or a mapping with `name:`")
    data = {key: value for key, value in entry.items() if key != "name"}
    for key in data:
        if key in PLACED:
            raise FleetError(
                f"{where}: host {entry['name']}: {key}: write the host under a cluster's servers or agents"
            )
        if key not in connector_data_meta and not (is_ours(str(key)) or str(key).startswith("_")):
            known = ", ".join(sorted(connector_data_meta))
            raise FleetError(
                f"{where}: host {entry['name']}: unknown key {key!r}; known: {known}, and any setting"
            )
    return entry["name"], _with_sudo(data)


def _with_sudo(data: dict[str, Any]) -> dict[str, Any]:
    """A user other than root works through sudo, without another flag."""
    return {"_sudo": True, **data} if data.get("ssh_user", "root") != "root" else data


def problems(found: Hosts) -> Iterator[str]:
    """What is wrong with the hosts taken together."""
    names = [name for name, _ in found]
    for name in sorted({name for name in names if names.count(name) > 1}):
        clusters = sorted(
            {str(data.get("k3s_cluster")) for one, data in found if one == name and data.get("k3s_cluster")}
        )
        places = f", in clusters {' and '.join(clusters)}" if len(clusters) > 1 else ""
        yield f"host {name} is listed twice{places}; give each machine one entry with a name of its own"
    for what, machines in (("reached at", _places(found)), ("k3s_node_ip", _node_addresses(found))):
        for place, who in sorted(machines.items()):
            if len(who) > 1:
                yield f"{' and '.join(who)} are the same machine: {what} {place}"
    for cluster in sorted({data["k3s_cluster"] for _, data in found if data.get("k3s_cluster")}):
        members = [(name, data) for name, data in found if data.get("k3s_cluster") == cluster]
        for key in sorted({key for _, data in members for key in data if key.startswith("hami_")}):
            values: dict[str, str] = {}
            for name, data in members:
                values.setdefault(repr(data[key]) if key in data else "not set", name)
            if len(values) > 1:
                said = ", ".join(f"{value} on {name}" for value, name in values.items())
                yield f"cluster {cluster}: {key} is {said}; HAMi is one installation: set it once for the cluster"


def _places(found: Hosts) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for name, data in found:
        place = f"{data.get('ssh_hostname', name)}:{data.get('ssh_port', 22)}"
        if name not in places.setdefault(place, []):
            places[place].append(name)
    return places


def _node_addresses(found: Hosts) -> dict[str, list[str]]:
    """Equal addresses in two sites' private networks are no problem: only those of one cluster are compared."""
    places: dict[str, list[str]] = {}
    for name, data in found:
        if data.get("k3s_node_ip") and data.get("k3s_cluster"):
            places.setdefault(f"{data['k3s_node_ip']} in cluster {data['k3s_cluster']}", []).append(name)
    return places


def groups(found: Hosts) -> dict[str, list[str]]:
    """pyinfra's groups, for --limit and group_data: `servers`, `agents`, and one of each cluster's name."""
    made: dict[str, list[str]] = {}
    for name, data in found:
        if data.get("k3s_cluster"):
            made.setdefault(data["k3s_cluster"].replace("-", "_"), []).append(name)
            made.setdefault(f"{data['k3s_role']}s", []).append(name)
    return made
