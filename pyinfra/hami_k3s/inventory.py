"""Hosts for pyinfra from GPU_NODES, GPU_FLEET or fleet.yaml, checked as a whole before anything connects."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import click

from hami_k3s import fleet, gate
from hami_k3s.fleet import FleetError, Hosts
from hami_k3s.releases import lockfile, origin
from hami_k3s.reports import trail
from hami_k3s.settings import Settings, SettingsError, check

HOW = """no hosts given. Name them in one of these ways:
    GPU_NODES=root@203.0.113.7,ubuntu@203.0.113.8 pyinfra inventory.py deploys/gpu_node.py
    GPU_NODES=@local pyinfra inventory.py deploys/gpu_node.py          (this machine itself)
    cp fleet.example.yaml fleet.yaml, edit it, and run pyinfra inventory.py deploys/gpu_node.py
    GPU_FLEET=path/to/fleet.yaml pyinfra inventory.py deploys/gpu_node.py"""

PARTS = lockfile.VERSIONS.values()


def hosts(folder: Path) -> Hosts:
    """(name, data) of every host, as pyinfra's inventories want them. `folder` holds fleet.yaml and group_data.

    Errors: FleetError, naming the file and what to write instead.
    """
    listed = os.environ.get("GPU_NODES", "").strip()
    named = os.environ.get("GPU_FLEET", "").strip()
    if listed and named:
        raise FleetError("both GPU_NODES and GPU_FLEET are set; unset one of them")
    if listed:
        found = [fleet.host(item.strip(), "GPU_NODES") for item in listed.split(",") if item.strip()]
    elif named or (folder / "fleet.yaml").exists():
        found = fleet.read(Path(named) if named else folder / "fleet.yaml")
    else:
        found = []
    if not found:
        raise FleetError(HOW)
    if wrong := list(fleet.problems(found)):
        raise FleetError("the fleet is wrong, nothing was contacted:\n    " + "\n    ".join(wrong))
    every = _check_settings(found, folder)
    for judge, lock in {where.judge: where.lock for where in map(origin.of, every) if where.lock}.items():
        said = ", ".join(f"{name} {part.version}" for name in PARTS if (part := getattr(lock, name)))
        click.echo(f"--> Releases locked by {judge}: {said}", err=True)
    gate.install()
    trail.expect(every[0].report_folder)
    return found


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
