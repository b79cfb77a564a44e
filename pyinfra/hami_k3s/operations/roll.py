"""Turns: how many nodes are upgraded at once, and that nothing is begun after a failure."""

from __future__ import annotations

import time

from pyinfra.api import Host

from hami_k3s import cluster, remote
from hami_k3s.waits import complain


class Roll:
    """Of one cluster, or of all hosts that are none's. `inside`: hosts at work. `stopped`: the host whose failure lets no further
    one begin. `copied`: one of its servers has made a copy of the cluster's state."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.stopped = ""
        self.copied = False


_rolls: dict[str, Roll] = {}


def of(host: Host) -> Roll:
    """The roll that this host is part of."""
    return _rolls.setdefault(cluster.name(host) or "", Roll())


def not_started(host: Host) -> str:
    """Why this host must not begin, or ""."""
    why = of(host).stopped
    return f"not started, this host is as it was: the upgrade stopped at {why}" if why else ""


def enter(host: Host, places: int, limit: float) -> bool:
    """Wait for one of `places` turns, for at most `limit` seconds. False, with the reason, when there will be none."""
    own, told, end = of(host), "", time.monotonic() + limit
    while True:
        if why := not_started(host) or remote.gone(host):
            complain(host, why)
            return False
        if len(own.inside) < places:
            own.inside.append(host.name)
            return True
        others = ", ".join(own.inside)
        if time.monotonic() > end:
            complain(host, f"not started: {others} took longer than {limit:.0f} s")
            return False
        if others != told:
            told = others
            host.log(f"    waits for its turn: {others} is being upgraded (upgrade_parallel is {places})")
        time.sleep(0.3)


def leave(host: Host, done: bool) -> None:
    """Give the turn back; after a failure no other host begins."""
    own = of(host)
    own.inside.remove(host.name)
    if not done:
        own.stopped = own.stopped or host.name
