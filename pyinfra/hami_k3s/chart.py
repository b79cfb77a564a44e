"""The values this project gives HAMi's chart. Pure: what depends on the cluster is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_k3s import releases
from hami_k3s.releases.reference import full
from hami_k3s.settings import Settings

MOST_SCHEDULERS = 3


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` wins; mappings are merged key by key."""
    result = dict(base)
    for key, value in over.items():
        mine = result.get(key)
        result[key] = (
            merged(mine, value) if isinstance(mine, Mapping) and isinstance(value, Mapping) else value
        )
    return result


def _schedulers(version: str, servers: int, nodes: int) -> int:
    """How many: one a server, of which one leads."""
    if not releases.several_schedulers(version):
        return 1
    # With the required anti-affinity an upgrade needs a node that has none yet.
    room = nodes - 1 if releases.rolling_deadlock(version) else nodes
    return min(servers, room, MOST_SCHEDULERS)


def values(
    settings: Settings,
    server_version: str,
    servers: int,
    nodes: int,
    digests: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The release's values.

    + server_version: the API server's gitVersion; the kube-scheduler's tag follows it
    + servers: how many servers the cluster has; where there are several, so are the schedulers
    + nodes: how many nodes it has, servers included
    + digests: of the locked images, by full name. A tag `v1.36.2@sha256:...` makes every chart's reference one by digest
    """
    locked = digests or {}
    image = f"{settings.hami_scheduler_registry}/{settings.hami_scheduler_repository}"
    tag = releases.scheduler_tag(server_version)
    if digest := locked.get(full(f"{image}:{tag}")):
        tag = f"{tag}@{digest}"
    if _old(settings.hami_chart_version):
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
    replicas = _schedulers(settings.hami_chart_version, servers, nodes)
    if replicas > 1:
        ours["scheduler"] |= {"replicas": replicas, "leaderElect": True}
    elif releases.rolling_deadlock(settings.hami_chart_version):
        ours["scheduler"]["leaderElect"] = False
    return merged(merged(ours, _pins(settings.hami_chart_version, locked)), settings.hami_values)


def _old(version: str) -> bool:
    """Charts up to 2.6: an image is one string, registry included, and HAMi's own tag is the value `version`."""
    return releases.scheduler_tag_path(version)[-1] == "imageTag"


def _pins(version: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """Values that name HAMi's own image and that of its certificate jobs by their locked digests."""
    found: dict[str, Any] = {}
    tags = {name.rpartition(":")[2] for name in digests if "/hami:" in name}
    # One tag is for all of HAMi's containers: with an image of the user's own among them no digest is right for all.
    own = {(tag, digest) for name, digest in digests.items() if (tag := name.rpartition(":")[2]) in tags}
    if len(own) == 1:
        tag = "@".join(own.pop())
        found |= {"version": tag} if _old(version) else {"global": {"imageTag": tag}}
    jobs = [f"{name}@{digest}" for name, digest in digests.items() if "/kube-webhook-certgen:" in name]
    if len(jobs) == 1:
        image: Any = jobs[0] if _old(version) else {"tag": jobs[0].rpartition("/")[2].partition(":")[2]}
        found["scheduler"] = {"patch": {"imageNew": image}}
    return found


def images(version: str, whole: Mapping[str, Any]) -> list[str]:
    """Full names of the images that the chart runs.

    + whole: the chart's own values with the release's merged over them
    Errors: KeyError, TypeError when the values have another shape
    """
    scheduler, plugin = whole["scheduler"], whole["devicePlugin"]
    kube, patch = scheduler["kubeScheduler"], scheduler["patch"]["imageNew"]
    if _old(version):
        own = [f"{one['image']}:{whole['version']}" for one in (scheduler["extender"], plugin)]
        return list(dict.fromkeys(map(full, [*own, f"{kube['image']}:{kube['imageTag']}", patch])))
    common = whole.get("global") or {}
    tag = common.get("imageTag")

    def name(image: Mapping[str, Any], tag: Any) -> str:
        return full(f"{common.get('imageRegistry') or image['registry']}/{image['repository']}:{tag}")

    def own_name(image: Mapping[str, Any]) -> str:
        wins = releases.numbers(version) >= (2, 9)  # before, the global tag did
        return name(image, (image["tag"] or tag) if wins else (tag or image["tag"]))

    own = [
        own_name(one) for one in (scheduler["extender"]["image"], plugin["image"], plugin["monitor"]["image"])
    ]
    return list(dict.fromkeys([*own, name(kube["image"], kube["image"]["tag"]), name(patch, patch["tag"])]))
