"""What every stage begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import Host

from hami_k3s import cluster, gate, remote
from hami_k3s import trusted as readings
from hami_k3s.facts.files import Digests
from hami_k3s.facts.nvidia import OnBus
from hami_k3s.operations import authority, lock
from hami_k3s.releases import origin
from hami_k3s.reports import trail
from hami_k3s.settings import Settings, SettingsError, check

_checked: WeakKeyDictionary[Host, Settings] = WeakKeyDictionary()
_locked: set[str] = set()
_trusting: set[str] = set()
_looking: set[str] = set()


def settings(changes: bool = True) -> Settings:
    """The checked settings of the present host, `k3s_gpu` decided. Errors: SettingsError, before anything is changed.

    + changes: this stage changes the host: the first one that does waits until no other run is at work there
    """
    here = cluster.real(host)
    if here not in _checked:
        gate.install()
        remote.tune(here)
        data: dict[str, Any] = here.data.dict()  # type: ignore[no-untyped-call]
        found = check(data)
        if problem := cluster.problem(here):
            raise SettingsError(problem)
        trail.follow(here.state, found.report_folder)
        _checked[here] = found.model_copy(update={"k3s_gpu": _has_card(here, found)})
    if changes and host.name not in _looking:
        alone(_checked[here])
    return _checked[here]


def only_look() -> None:
    """The stages of the present host change nothing in this run."""
    _looking.add(host.name)


def alone(want: Settings) -> None:
    """One run at a time on a host, from here to its end."""
    if host.name not in _locked:
        _locked.add(host.name)
        lock.alone(name="No other run on this host", limit=want.preflight_lock_timeout)


def _has_card(host: Host, found: Settings) -> bool:
    """A standalone host and an agent are there for their card; a cluster's server may have one."""
    if found.k3s_gpu is not None:
        return found.k3s_gpu
    if found.k3s_cluster is None or found.k3s_role == "agent":
        return True
    return bool(host.get_fact(OnBus))


def sources(want: Settings) -> origin.Origin:
    """Where the present host's files come from, for a stage that fetches some. The private CA is trusted before the first."""
    where = origin.of(want)
    if want.private_ca and host.name not in _trusting:
        _trusting.add(host.name)
        readings.plan(host, Digests, paths=[authority.FILE, authority.DONE])
        pem = Path(want.private_ca).read_text(encoding="ascii")
        authority.trusted(name="Private CA", pem=pem, prelude=where.prelude)
    return where
