"""The fault `scheduler-image`: something rewrote the running kube-scheduler's image; the Deployment does not show it."""

from typing import Any

from .. import containerd, machine
from ..cluster import Cluster
from . import release

Object = dict[str, Any]


def sync(cluster: Cluster) -> None:
    if machine.fault("scheduler-image") is None:
        return
    minor = containerd.parse_version(cluster.version)[1]
    for pod in cluster.pods():
        found = release.container(pod, release.KUBE_SCHEDULER)
        if found is None or release.container(pod, release.EXTENDER) is None:
            continue
        wrong = found["image"].rsplit(":", 1)[0] + f":v1.{minor - 1}.0"
        if found["image"] != wrong:

            def rewrite(obj: Object, wrong: str = wrong) -> None:
                release.container(obj, release.KUBE_SCHEDULER)["image"] = wrong
                for status in obj.get("status", {}).get("containerStatuses") or []:
                    if status["name"] == release.KUBE_SCHEDULER:
                        status["image"] = wrong

            cluster.store.modify("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], rewrite)
