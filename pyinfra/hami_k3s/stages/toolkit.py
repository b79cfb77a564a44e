"""Step 2 of the lab, first half: NVIDIA's container toolkit, before k3s looks for its runtime."""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.deploy import deploy

from hami_k3s import trusted
from hami_k3s.facts.toolkit import Toolkit
from hami_k3s.operations import toolkit
from hami_k3s.releases import origin
from hami_k3s.stages.common import settings, sources


@deploy("Container toolkit")
def container_toolkit() -> None:
    """NVIDIA's apt repository and the toolkit's four packages at the pinned version, held."""
    repository()
    want = settings()
    if want.k3s_gpu:
        toolkit.packages(
            name="Pinned packages, held",
            url=origin.toolkit_url(want),
            version=want.toolkit_version,
            limit=want.toolkit_timeout,
            origin=origin.of(want),
        )


def repository() -> None:
    """What the packages come from, and what other downloads need."""
    want = settings()
    where, url = sources(want), origin.toolkit_url(want)
    if not want.k3s_gpu:
        toolkit.tools(name="curl, where there is no card", limit=want.toolkit_timeout, origin=where)
        return
    trusted.plan(host, Toolkit, url=url, version=want.toolkit_version)
    toolkit.repository(
        name="NVIDIA's repository",
        url=url,
        fingerprint=want.toolkit_key_fingerprint,
        version=want.toolkit_version,
        limit=want.toolkit_timeout,
        origin=where,
    )
