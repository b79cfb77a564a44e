"""The second month: other versions, with nobody's pods lost unasked."""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.deploy import deploy

from hami_k3s import cluster, trusted
from hami_k3s.facts.helm import Release
from hami_k3s.facts.k3s import K3s
from hami_k3s.operations import join, k3s, upgrade
from hami_k3s.operations.registries import Registries
from hami_k3s.operations.target import Target
from hami_k3s.releases import origin
from hami_k3s.stages import hami as hami_stage
from hami_k3s.stages import k3s as k3s_stage
from hami_k3s.stages import toolkit as toolkit_stage
from hami_k3s.stages.common import settings


def _target() -> Target:
    want = settings()
    registries = Registries(origin.resolved(want.k3s_registries))
    return Target(want, origin.of(want), origin.toolkit_url(want), k3s_stage.contents(want), registries)


@deploy("Upgrade")
def allowed() -> None:
    """Stop, before anything is changed, every cluster with a host that cannot be upgraded or whose pods would be lost."""
    target = _target()
    trusted.plan(host, K3s, **k3s.reading(host))
    trusted.plan(host, Release, **target.release)
    upgrade.running(name="k3s runs", target=target)
    upgrade.look(name="What would be upgraded", target=target)
    upgrade.allowed(name="May be upgraded", target=target)


@deploy("Upgrade")
def prepared() -> None:
    """Everything that is downloaded, while all runs on as it is."""
    toolkit_stage.repository()
    k3s_stage.downloads(settings(), link=False)
    hami_stage.helm_binary()
    if cluster.has_clusters(host):
        join.together(name="Everything is there", step="everything that is needed has been downloaded")


@deploy("Upgrade")
def servers() -> None:
    """k3s on the servers of clusters, one at a time, a copy of its state first."""
    upgrade.servers(name="Servers, one at a time", target=_target())


@deploy("Upgrade")
def release() -> None:
    """HAMi's release once a cluster; its kube-scheduler follows the new server."""
    upgrade.release(name="HAMi's release", target=_target())


@deploy("Upgrade")
def nodes() -> None:
    """Nodes in their turns: out of service, upgraded, back in service, looked at."""
    upgrade.nodes(name="Nodes in their turns", target=_target())
    upgrade.final(name="HAMi's usual values", target=_target())
    hami_stage.ready()
