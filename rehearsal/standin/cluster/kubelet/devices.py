"""Kubelet's device manager: who owns the socket of an extended resource, and what each container was given."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..cluster import Cluster
from . import volumes

Object = dict[str, Any]


class AdmissionError(Exception):
    """UnexpectedAdmissionError: kubelet refuses a pod that is already bound to this node."""


@dataclass
class Grant:
    env: dict[str, str]
    mounts: list[tuple[str, str, bool]]  # source on the node, target in the container, read-only


class Plugin(Protocol):
    name: str
    owner: str  # container id

    def count(self) -> int: ...

    def allocate(self, pod: Object, container: Object, amount: int) -> Grant: ...


class DeviceManager:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.plugins: dict[str, Plugin] = {}

    def register(self, resource: str, plugin: Plugin) -> None:
        self.plugins[resource] = plugin

    def unregister(self, resource: str, owner: str) -> None:
        """The socket closes with its container; another plugin's stays."""
        plugin = self.plugins.get(resource)
        if plugin is not None and plugin.owner == owner:
            del self.plugins[resource]

    def counts(self, known: dict[str, str]) -> dict[str, str]:
        """Extended resources of the node's status. Kubelet keeps a resource it once had, with zero."""
        zero = {name: "0" for name in known if "/" in name}
        return {**zero, **{name: str(plugin.count()) for name, plugin in self.plugins.items()}}

    def _file(self, pod: Object) -> Path:
        return volumes.pod_folder(pod) / "devices.json"

    def granted(self, pod: Object, container: str) -> Grant:
        """What was allocated to that container when its pod was admitted."""
        try:
            found = json.loads(self._file(pod).read_text()).get(container)
        except (OSError, ValueError):
            found = None
        if not found:
            return Grant({}, [])
        return Grant(found["env"], [(a, b, c) for a, b, c in found["mounts"]])

    def admit(self, pod: Object) -> None:
        if self._file(pod).exists():
            return
        grants = {}
        for container in pod["spec"]["containers"]:
            for resource, amount in ((container.get("resources") or {}).get("limits") or {}).items():
                if "/" not in resource or resource.startswith("hugepages"):
                    continue
                plugin = self.plugins.get(resource)
                if plugin is None:
                    if resource in (
                        "nvidia.com/gpumem",
                        "nvidia.com/gpucores",
                        "nvidia.com/gpumem-percentage",
                    ):
                        continue  # not kubelet's: HAMi's own accounting
                    text = f"Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {resource}"
                    raise AdmissionError(f"{text}, which is unexpected")
                grant = plugin.allocate(pod, container, int(float(amount)))
                grants[container["name"]] = {"env": grant.env, "mounts": grant.mounts}
        self._file(pod).parent.mkdir(parents=True, exist_ok=True)
        self._file(pod).write_text(json.dumps(grants))
