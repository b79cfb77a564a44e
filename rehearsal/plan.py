"""A fleet to boot: the file of `up --fleet`, read and checked as a whole before anything is made.

hosts: [{name: solo-1, card: l4}, {name: solo-2, card: h200, cards: 2}]
clusters:
  - name: edge
    servers: [{name: s1}]                       # a node without `card` has none
    agents: [{name: a1, card: rtx-pro-6000}]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rehearsal import faults, network
from rehearsal.errors import RehearsalError
from rehearsal.profiles import PROFILES, cards

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
NODE_KEYS = {"name", "card", "cards", "faults", "settings"}
CLUSTER_KEYS = {"name", "servers", "agents", "settings"}
MOST = 100  # nodes


@dataclass
class Plan:
    """What to boot (`members`) and how the nodes belong together (`shape`: the fleet file with names for nodes)."""

    members: list[dict[str, Any]] = field(default_factory=list)
    shape: dict[str, Any] = field(default_factory=dict)


def read(path: Path, broken: tuple[str, ...] = ()) -> Plan:
    """The plan in a file; what is wrong in it is named with its place."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as problem:
        raise RehearsalError(f"{path}: {problem}") from problem
    try:
        return _plan(content, broken)
    except RehearsalError as wrong:
        raise RehearsalError(f"{path}: {wrong}") from wrong


def _plan(content: Any, broken: tuple[str, ...]) -> Plan:
    _keys("the file", content, {"hosts", "clusters", "settings"})
    plan = Plan()
    hosts = [_node(plan, f"hosts[{n}]", one, broken) for n, one in enumerate(_list(content, "hosts"))]
    clusters = []
    for number, cluster in enumerate(_list(content, "clusters")):
        place = f"clusters[{number}]"
        _keys(place, cluster, CLUSTER_KEYS)
        made: dict[str, Any] = {"name": _name(place, cluster)}
        for role in ("servers", "agents"):
            found = _list(cluster, role)
            made[role] = [_node(plan, f"{place}.{role}[{n}]", one, broken) for n, one in enumerate(found)]
        if not made["servers"]:
            raise RehearsalError(f"{place}: a cluster needs a server")
        clusters.append(made | {k: cluster[k] for k in ("settings",) if cluster.get(k)})
    for names in ([one["name"] for one in plan.members], [one["name"] for one in clusters]):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise RehearsalError(f"named more than once: {', '.join(twice)}")
    if not 1 <= len(plan.members) <= MOST:
        raise RehearsalError(f"{len(plan.members)} nodes; 1 to {MOST} can be booted")
    plan.shape = {"hosts": hosts, "clusters": clusters, "settings": content.get("settings") or {}}
    return plan


def _keys(place: str, found: Any, known: set[str]) -> None:
    if not isinstance(found, dict):
        raise RehearsalError(f"{place} is no mapping")
    unknown = sorted(map(str, set(found) - known))
    if unknown:
        raise RehearsalError(f"{place}: unknown: {', '.join(unknown)} (known: {', '.join(sorted(known))})")


def _list(content: dict[str, Any], key: str) -> list[Any]:
    found = content.get(key) or []
    if not isinstance(found, list):
        raise RehearsalError(f"{key} is no list")
    return found


def _name(place: str, found: dict[str, Any]) -> str:
    name = str(found.get("name", ""))
    if not NAME.fullmatch(name):
        raise RehearsalError(f"{place}: {name!r} is no name: 1 to 30 of a-z, 0-9 and -")
    return name


def _node(plan: Plan, place: str, found: Any, broken: tuple[str, ...]) -> dict[str, Any]:
    _keys(place, found, NODE_KEYS)
    name, card, count = _name(place, found), found.get("card"), found.get("cards", 1)
    if card is not None and card not in PROFILES:
        raise RehearsalError(f"{place}: no card named {card!r} (known: {', '.join(sorted(PROFILES))})")
    if not isinstance(count, int) or not 1 <= count <= 16:
        raise RehearsalError(f"{place}: cards: {count!r} is not 1 to 16")
    plan.members.append(member(len(plan.members), name, card, count, [*broken, *(found.get("faults") or [])]))
    return {"node": name, "settings": found.get("settings") or {}}


def member(number: int, name: str, card: str | None, count: int, broken: list[str]) -> dict[str, Any]:
    """A node as the state keeps it; without a card it has no driver either."""
    return {
        "name": name,
        "profile": card or "",
        "driver": PROFILES[card].driver if card else "",
        "address": network.node_address(number),
        "cards": cards(card, count, name) if card else [],
        "faults": faults.check(broken),
    }
