"""The values this project gives HAMi's chart. Pure: what depends on the cluster is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_k3s import releases
from hami_k3s.settings import Settings


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` wins; mappings are merged key by key."""
    result = dict(base)
    for key, value in over.items():
        mine = result.get(key)
        result[key] = (
            merged(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
        )
    return result


def values(settings: Settings, server_version: str, nodes: int) -> dict[str, Any]:
    """The release's values.

    + server_version: the API server's gitVersion; the kube-scheduler's tag follows it
    + nodes: how many nodes the cluster has
    """
    path = releases.scheduler_tag_path(settings.hami_chart_version)
    tag = releases.scheduler_tag(server_version)
    if path[-1] == "imageTag":  # charts up to 2.6: `image` is one string, registry included
        image = f"{settings.hami_scheduler_registry}/{settings.hami_scheduler_repository}"
        scheduler: dict[str, Any] = {"image": image, "imageTag": tag}
    else:
        scheduler = {
            "image": {
                "registry": settings.hami_scheduler_registry,
                "repository": settings.hami_scheduler_repository,
                "tag": tag,
            }
        }
    ours: dict[str, Any] = {
        "scheduler": {
            "kubeScheduler": scheduler,
            # The extender has no authentication: not on the machine's public address.
            "service": {"type": "ClusterIP"},
        },
        "devicePlugin": {"service": {"type": "ClusterIP"}},
    }
    if nodes == 1 and releases.rolling_deadlock(settings.hami_chart_version):
        ours["scheduler"]["leaderElect"] = False
    return merged(ours, settings.hami_values)
