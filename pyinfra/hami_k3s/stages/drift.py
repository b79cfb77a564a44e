"""What differs from what a deploy would make: its own stages are called, and only look."""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.deploy import deploy

from hami_k3s import looking
from hami_k3s.operations import drift
from hami_k3s.reports.trail import TRAIL
from hami_k3s.stages.common import only_look, settings


def begin() -> None:
    """From here on to `report` this host's stages change nothing, and need no lock."""
    only_look()


@deploy("Drift")
def report() -> None:
    """What the stages since `begin` found: a table, JSON under reports/, and a failed host when anything differs."""
    want = settings(changes=False)
    TRAIL.silent = True
    drift.summarise(want.report_folder)
    looking.only(host, drift.FOUND.setdefault(host.name, []).extend)
    drift.differences(name="What differs", settings=want)
