"""End of step 2 of the lab: the label that HAMi's device plugin looks for."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s.operations import kubectl


@deploy("Label")
def gpu_label() -> None:
    """`gpu=on` on this host's node."""
    kubectl.node_label(name="gpu=on", key="gpu", value="on")
