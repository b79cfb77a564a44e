"""The fault `scheduler-image`: something rewrote the running kube-scheduler's image; the Deployment does not show it."""

from typing import Any

from .. import containerd, machine
from ..cluster import Cluster
from . import release

Object = dict[str, Any]


def sync(cluster: Cluster) -> None:
    broken = machine.fault("scheduler-image") is not None
    tag = f":v1.{containerd.parse_version(cluster.version)[1] - 1}.0"
    for pod in cluster.pods():
        found = release.container(pod, release.KUBE_SCHEDULER)
        if found is None or release.container(pod, release.EXTENDER) is None:
            continue
        if broken and not found["image"].endswith(tag):
            _rewrite(cluster, pod, found["image"].rsplit(":", 1)[0] + tag)
        elif not broken and found["image"].endswith(tag):
            _rewrite(cluster, pod, _wanted(cluster, pod) or found["image"])


def _wanted(cluster: Cluster, pod: Object) -> str | None:
    """The image in the template that this pod was made from."""
    owner = pod["metadata"]["ownerReferences"][0]["name"]
    found = cluster.store.get("apps/replicasets", pod["metadata"]["namespace"], owner)
    container = release.container(found["spec"]["template"], release.KUBE_SCHEDULER) if found else None
    return container["image"] if container else None


def _rewrite(cluster: Cluster, pod: Object, image: str) -> None:
    def change(obj: Object) -> None:
        container = release.container(obj, release.KUBE_SCHEDULER)
        if container is not None:
            container["image"] = image
        for status in obj.get("status", {}).get("containerStatuses") or []:
            if status["name"] == release.KUBE_SCHEDULER:
                status["image"] = image

    cluster.store.modify("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], change)
