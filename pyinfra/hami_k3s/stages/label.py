"""End of step 2 of the lab: the label that HAMi's device plugin looks for."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s.operations import kubectl
from hami_k3s.stages.common import settings


@deploy("Label")
def gpu_label() -> None:
    """`gpu=on` on the nodes that have a card."""
    if settings().k3s_gpu:
        kubectl.node_label(name="gpu=on", key="gpu", value="on")
