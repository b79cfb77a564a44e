"""The clean-up at the end of the lab."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s.operations import reset
from hami_k3s.stages.common import settings


@deploy("Reset")
def hami() -> None:
    """Remove HAMi's release, verify's pods, the label and HAMi's annotations from this host's node."""
    reset.hami(name="HAMi is gone", settings=settings())


@deploy("Reset")
def k3s() -> None:
    """Remove k3s with all its data when `reset_k3s` is true."""
    want = settings()
    reset.k3s(name="k3s is gone, if asked (reset_k3s)", settings=want, remove=want.reset_k3s)
