"""Settings of the upgrade."""

from __future__ import annotations

from pydantic import Field

from hami_k3s.settings.kinds import Part


class Upgrade(Part):
    """`upgrade_...`"""

    upgrade_drain: bool = Field(
        False,
        description="upgrade.py evicts GPU pods from a node that must be empty; false: it names them and changes nothing",
    )
    upgrade_parallel: int = Field(
        1,
        ge=1,
        description="nodes of a cluster that are upgraded at once, its servers always one by one; "
        "hosts without a cluster count as one group",
    )
    upgrade_drain_timeout: int = Field(
        300,
        ge=5,
        description="seconds until the GPU pods of a node must have ended, PodDisruptionBudgets included",
    )
