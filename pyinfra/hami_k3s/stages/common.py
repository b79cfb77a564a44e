"""What every stage begins with."""

from __future__ import annotations

from typing import Any

from pyinfra import host

from hami_k3s import gate, remote
from hami_k3s.operations import lock
from hami_k3s.reports import trail
from hami_k3s.settings import Settings, check

_locked: set[str] = set()
_looking: set[str] = set()


def settings(changes: bool = True) -> Settings:
    """The checked settings of the present host. Errors: SettingsError, before anything is changed.

    + changes: this stage changes the host: the first one that does waits until no other run is at work there
    """
    gate.install()
    remote.tune(host)
    data: dict[str, Any] = host.data.dict()  # type: ignore[no-untyped-call]
    want = check(data)
    trail.follow(host.state, want.report_folder)
    if changes and host.name not in _looking:
        alone(want)
    return want


def only_look() -> None:
    """The stages of the present host change nothing in this run."""
    _looking.add(host.name)


def alone(want: Settings) -> None:
    """One run at a time on a host, from here to its end."""
    if host.name not in _locked:
        _locked.add(host.name)
        lock.alone(name="No other run on this host", limit=want.preflight_lock_timeout)
