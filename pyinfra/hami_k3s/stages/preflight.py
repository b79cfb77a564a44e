"""Step 1 of the lab: the host, its driver, and what would be in the way."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s.operations import host
from hami_k3s.stages.common import settings


@deploy("Preflight")
def gpu_host() -> None:
    """Stop a host that cannot be a GPU node, with every reason at once, before any change."""
    host.gpu_host(name="The host can be a GPU node", settings=settings())
