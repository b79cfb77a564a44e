"""What every stage begins with."""

from __future__ import annotations

from typing import Any

from pyinfra import host

from hami_k3s import gate, remote
from hami_k3s.settings import Settings, check


def settings() -> Settings:
    """The checked settings of the present host. Errors: SettingsError, before anything is changed."""
    gate.install()
    remote.tune(host)
    data: dict[str, Any] = host.data.dict()  # type: ignore[no-untyped-call]
    return check(data)
