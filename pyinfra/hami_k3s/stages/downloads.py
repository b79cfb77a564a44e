"""Before steps 2 to 4 of the lab, to save time: what they will fetch."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s.operations import downloads
from hami_k3s.stages.common import settings, sources


@deploy("Downloads")
def begin() -> None:
    """k3s, helm and HAMi's chart, fetched while apt is at work; the later stages wait for them."""
    want = settings()
    where = sources(want)
    downloads.begin(name="Begun, where something is missing", settings=want, origin=where)
