"""Steps 5 to 7 of the lab as claims that can fail."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s.operations import verify
from hami_k3s.stages.common import settings


@deploy("Verify")
def isolation() -> None:
    """Two pods on one card, each held to its slice; the verdict is the host's result."""
    want = settings()
    if want.k3s_gpu:
        verify.isolation(name="Two pods on one card, each held to its slice", settings=want)
