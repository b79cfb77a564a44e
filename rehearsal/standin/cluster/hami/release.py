"""What is known of the installed release, read from the objects that really exist (never from the chart)."""

import re
from typing import Any

import yaml

from ..cluster import Cluster, is_leaving, is_ready

Object = dict[str, Any]
EXTENDER, KUBE_SCHEDULER, PLUGIN = "vgpu-scheduler-extender", "kube-scheduler", "device-plugin"
LEADER_LABEL = "hami.io/scheduler-role"


def version_of(image: str) -> tuple[int, int, int]:
    found = re.search(r":v?(\d+)\.(\d+)\.(\d+)", image)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (2, 9, 0)


def container(pod: Object, name: str) -> Object | None:
    return next((c for c in pod["spec"]["containers"] if c["name"] == name), None)


def running(pod: Object, name: str) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return any(s["name"] == name and "running" in s.get("state", {}) for s in statuses)


def extenders(cluster: Cluster) -> list[Object]:
    return [
        p
        for p in cluster.pods()
        if container(p, EXTENDER) and running(p, EXTENDER) and not is_leaving(p) and is_ready(p)
    ]


def flags(spec: Object) -> dict[str, str]:
    words = [str(w) for w in [*(spec.get("command") or []), *(spec.get("args") or [])]]
    return {w.lstrip("-").partition("=")[0]: w.partition("=")[2] for w in words if w.startswith("-")}


def device_config(cluster: Cluster, pod: Object) -> Object:
    """The nvidia part of device-config.yaml, from the ConfigMap that this pod mounts."""
    for volume in pod["spec"].get("volumes") or []:
        name = (volume.get("configMap") or {}).get("name")
        obj = cluster.store.get("configmaps", pod["metadata"]["namespace"], name) if name else None
        text = ((obj or {}).get("data") or {}).get("device-config.yaml")
        if text:
            return (yaml.safe_load(text) or {}).get("nvidia") or {}
    return {}


class Scheduler:
    """One running scheduler of HAMi: its name, its policies, its resource names."""

    def __init__(self, cluster: Cluster, pod: Object) -> None:
        self.pod = pod
        spec = container(pod, EXTENDER) or {}
        self.version = version_of(spec.get("image", ""))
        given = flags(spec)
        self.name = given.get("scheduler-name") or "hami-scheduler"
        self.node_policy = given.get("node-scheduler-policy") or "binpack"
        self.gpu_policy = given.get("gpu-scheduler-policy") or "spread"
        self.force = given.get("force-overwrite-default-scheduler", "true") != "false"
        self.config = device_config(cluster, pod)
        self.count = self.config.get("resourceCountName", "nvidia.com/gpu")
        self.memory = self.config.get("resourceMemoryName", "nvidia.com/gpumem")
        self.percentage = self.config.get("resourceMemoryPercentageName", "nvidia.com/gpumem-percentage")
        self.cores = self.config.get("resourceCoreName", "nvidia.com/gpucores")
        self.priority = self.config.get("resourcePriorityName", "nvidia.com/priority")

    @property
    def places_pods(self) -> bool:
        """Both halves have to run: kube-scheduler asks, the extender answers."""
        return container(self.pod, KUBE_SCHEDULER) is not None and running(self.pod, KUBE_SCHEDULER)


def active(cluster: Cluster) -> Scheduler | None:
    pods = sorted(extenders(cluster), key=lambda p: p["metadata"]["labels"].get(LEADER_LABEL) != "leader")
    for pod in pods:  # followers answer nothing while there is a leader
        found = Scheduler(cluster, pod)
        if found.places_pods:
            return found
    return None
