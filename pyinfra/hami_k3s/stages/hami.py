"""Step 4 of the lab: helm and HAMi."""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.deploy import deploy

from hami_k3s import cluster, trusted
from hami_k3s.facts.binary import Binary
from hami_k3s.facts.hami import Hami
from hami_k3s.facts.helm import Release
from hami_k3s.operations import binary, hami, helm, join
from hami_k3s.releases import origin
from hami_k3s.stages.common import settings, sources


@deploy("Helm")
def helm_binary() -> None:
    """helm at the pinned version, on servers. A /usr/local/bin/helm of somebody else's stays; ours is used by its own path."""
    want = settings()
    if cluster.is_agent(host):
        return
    tool = binary.helm(want)
    trusted.plan(host, Binary, **tool.places)
    where = sources(want)
    binary.released(name="Verified binary", tool=tool, replace=False, origin=where)


@deploy("HAMi")
def release() -> None:
    """HAMi's chart, once a cluster; the kube-scheduler's tag follows the API server that runs at that moment."""
    want = settings()
    if not cluster.is_agent(host):
        trusted.plan(host, Release, release=want.hami_release, namespace=want.hami_namespace)
        where = sources(want)
        helm.hami(name="Release", settings=want, origin=where)
    if cluster.has_clusters(host):
        join.together(name="HAMi is installed", step="HAMi is installed")


@deploy("HAMi")
def ready() -> None:
    """Every card registered and healthy, GPU pods redirected, the scheduler at the server's version."""
    want = settings()
    if not want.k3s_gpu:
        return
    trusted.plan(host, Hami, release=want.hami_release, namespace=want.hami_namespace)
    hami.ready(
        name="Cards registered, webhook answers",
        release=want.hami_release,
        namespace=want.hami_namespace,
        values=want.hami_values,
        limit=want.hami_ready_timeout,
    )
    where = origin.of(want)
    if where.lock and where.lock.images:
        hami.as_locked(
            name="Images as locked",
            release=want.hami_release,
            namespace=want.hami_namespace,
            images=where.lock.images,
            judge=where.judge,
        )
