"""HAMi's mutating webhook: which pods it hands to its scheduler, and what it fills in."""

import copy
from collections.abc import Callable
from typing import Any

from .. import log, machine
from ..cluster import Cluster, is_ready
from ..problem import ProblemError
from . import release

Object = dict[str, Any]


def backend(cluster: Cluster, reference: Object) -> Callable[[Object, Object], Object] | None:
    """Who answers behind that Service: a running extender among its endpoints."""
    endpoints = cluster.store.get("endpoints", reference["namespace"], reference["name"]) or {}
    for subset in endpoints.get("subsets") or []:
        for address in subset.get("addresses") or []:
            target = address.get("targetRef") or {}
            pod = cluster.store.get("pods", target.get("namespace", ""), target.get("name", ""))
            if pod and is_ready(pod) and release.container(pod, release.EXTENDER):
                scheduler = release.Scheduler(cluster, pod)
                return lambda obj, _hook, scheduler=scheduler: mutate(scheduler, obj)
    return None


def mutate(scheduler: release.Scheduler, pod: Object) -> Object:
    pod = copy.deepcopy(pod)
    if machine.fault("webhook-passes") is not None:
        return pod
    spec, meta = pod["spec"], pod["metadata"]
    name = spec.get("schedulerName", "")
    if name not in ("", "default-scheduler", scheduler.name) or (
        name == "default-scheduler" and not scheduler.force
    ):
        return pod
    found = False
    for container in spec["containers"]:
        if (container.get("securityContext") or {}).get("privileged"):
            log.warning(f"hami webhook: Denying admission as container {container['name']} is privileged")
            continue
        if _container(scheduler, container):
            found = True
        elif str(scheduler.config.get("overwriteEnv", "false")).lower() == "true":
            container.setdefault("env", []).append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"})
    if not found:
        return pod
    if spec.get("nodeName"):
        text = 'admission webhook "vgpu.hami.io" denied the request: pod has node assigned'
        raise ProblemError(403, text, "Forbidden", {"name": meta["name"], "kind": "pods"})
    spec["schedulerName"] = scheduler.name
    runtime_class = scheduler.config.get("runtimeClassName")
    if runtime_class and not spec.get("runtimeClassName"):
        spec["runtimeClassName"] = runtime_class
    log.info(f"hami webhook: pod {meta.get('namespace')}/{meta['name']} goes to {scheduler.name}")
    return pod


def _container(scheduler: release.Scheduler, container: Object) -> bool:
    """Whether it asks for a share of a card; defaults are filled in."""
    limits = (container.get("resources") or {}).get("limits") or {}
    asks = [
        r for r in (scheduler.count, scheduler.memory, scheduler.percentage, scheduler.cores) if r in limits
    ]
    if not asks:
        return False
    requests = container["resources"].setdefault("requests", {})
    if scheduler.count not in limits:
        limits[scheduler.count] = requests[scheduler.count] = str(scheduler.config.get("defaultGPUNum", 1))
    whole = str(limits.get(scheduler.percentage, "100")) == "100"
    if scheduler.memory not in limits and whole and scheduler.cores not in limits:
        limits[scheduler.cores] = requests[scheduler.cores] = "100"  # a whole card is an exclusive card
    env = container.setdefault("env", [])
    if scheduler.priority in limits:
        env.append({"name": "CUDA_TASK_PRIORITY", "value": str(limits[scheduler.priority])})
    policy = scheduler.config.get("gpuCorePolicy", "default")
    if policy and policy != "default":
        env.append({"name": "GPU_CORE_UTILIZATION_POLICY", "value": policy})
    if not env:
        del container["env"]
    return True
