"""Hosts for pyinfra from GPU_NODES, GPU_FLEET or fleet.yaml, checked as a whole before anything connects."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from typing import Any

import click
import yaml
from pyinfra.connectors.ssh import connector_data_meta

from hami_k3s import gate
from hami_k3s.releases import lockfile, origin
from hami_k3s.reports import trail
from hami_k3s.settings import Settings, SettingsError, check, is_ours

HOW = """no hosts given. Name them in one of these ways:
    GPU_NODES=root@203.0.113.7,ubuntu@203.0.113.8 pyinfra inventory.py deploys/gpu_node.py
    GPU_NODES=@local pyinfra inventory.py deploys/gpu_node.py          (this machine itself)
    cp fleet.example.yaml fleet.yaml, edit it, and run pyinfra inventory.py deploys/gpu_node.py
    GPU_FLEET=path/to/fleet.yaml pyinfra inventory.py deploys/gpu_node.py"""

# An IPv6 address needs brackets only in front of a port.
HOST = re.compile(
    r"(?:(?P<user>[a-zA-Z_][\w.-]*)@)?"
    r"(?:(?P<address>\w[\w.-]*|\[[\da-fA-F:.]+\])(?::(?P<port>\d+))?|(?P<bare>(?:[\da-fA-F]*:){2,}[\da-fA-F.]*))"
)

PARTS = lockfile.VERSIONS.values()
Hosts = list[tuple[str, dict[str, Any]]]


class FleetError(SystemExit):
    """Ends the run with exit status 1 and the reason, before anything connects."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Error: {reason}")


def hosts(folder: Path) -> Hosts:
    """(name, data) of every host, as pyinfra's inventories want them. `folder` holds fleet.yaml and group_data.

    Errors: FleetError, naming the file and what to write instead.
    """
    listed = os.environ.get("GPU_NODES", "").strip()
    named = os.environ.get("GPU_FLEET", "").strip()
    if listed and named:
        raise FleetError("both GPU_NODES and GPU_FLEET are set; unset one of them")
    if listed:
        found = [_host(item.strip(), "GPU_NODES") for item in listed.split(",") if item.strip()]
    elif named or (folder / "fleet.yaml").exists():
        found = _fleet(Path(named) if named else folder / "fleet.yaml")
    else:
        found = []
    if not found:
        raise FleetError(HOW)
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise FleetError(
                f"host {name} is listed twice; give each machine one entry with a name of its own"
            )
    every = _check_settings(found, folder)
    for judge, lock in {where.judge: where.lock for where in map(origin.of, every) if where.lock}.items():
        said = ", ".join(f"{name} {part.version}" for name in PARTS if (part := getattr(lock, name)))
        click.echo(f"--> Releases locked by {judge}: {said}", err=True)
    gate.install()
    trail.expect(every[0].report_folder)
    return found


def _fleet(path: Path) -> Hosts:
    try:
        fleet = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FleetError(
            f"{path}: {error.strerror}. GPU_FLEET names a YAML file; see fleet.example.yaml"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FleetError(f"{path} is not YAML: {error}\nfleet.example.yaml shows how to write it") from error
    if not isinstance(fleet, dict):
        raise FleetError(f"{path}: expected `hosts:` and `settings:` at the top; see fleet.example.yaml")
    if unknown := sorted(set(fleet) - {"hosts", "settings"}, key=str):
        raise FleetError(f"{path}: unknown key {unknown[0]!r}; the top level has `hosts:` and `settings:`")
    settings = fleet.get("settings") or {}
    if not isinstance(settings, dict):
        raise FleetError(f"{path}: `settings:` must be a mapping of setting: value")
    if bad := [key for key in settings if not is_ours(str(key))]:
        raise FleetError(f"{path}: {bad[0]} under `settings:` is not a setting; docs/settings.md lists them")
    entries = fleet.get("hosts") or []
    if not isinstance(entries, list):
        raise FleetError(f"{path}: `hosts:` must be a list; see fleet.example.yaml")
    found = [_host(entry, str(path)) for entry in entries]
    return [(name, {**settings, **data}) for name, data in found]


def _host(entry: object, where: str) -> tuple[str, dict[str, Any]]:
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
        if key not in connector_data_meta and not (is_ours(str(key)) or str(key).startswith("_")):
            known = ", ".join(sorted(connector_data_meta))
            raise FleetError(
                f"{where}: host {entry['name']}: unknown key {key!r}; known: {known}, and any setting"
            )
    return entry["name"], _with_sudo(data)


def _with_sudo(data: dict[str, Any]) -> dict[str, Any]:
    """A user other than root works through sudo, without another flag."""
    return {"_sudo": True, **data} if data.get("ssh_user", "root") != "root" else data


def _check_settings(found: Hosts, folder: Path) -> list[Settings]:
    """Those of each host. Errors: FleetError with every problem of all of them."""
    shared = folder / "group_data" / "all.py"
    defaults = runpy.run_path(str(shared)) if shared.exists() else {}
    problems, every = [], []
    for name, data in found:
        try:
            every.append(check({**defaults, **data, **_command_line()}))
        except SettingsError as error:
            problems += [f"{name}: {line}" for line in str(error).splitlines()]
    if problems:
        raise FleetError("settings are wrong, nothing was contacted:\n    " + "\n    ".join(problems))
    return every


def _command_line() -> dict[str, Any]:
    """`--data key=value` of the pyinfra command that is loading this inventory."""
    from pyinfra_cli.util import parse_cli_arg

    context = click.get_current_context(silent=True)
    pairs = context.params.get("data") or () if context else ()
    return {key: parse_cli_arg(value) for key, _, value in (pair.partition("=") for pair in pairs)}
