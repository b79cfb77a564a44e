"""The node agent: a worker for each pod that is bound to this node, and the extended resources in the node's status."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from .. import paths
from ..cluster import Cluster, is_leaving
from . import shim as shim_module
from .container import Real
from .devices import DeviceManager
from .pod import PodWorker

Object = dict[str, Any]


class Kubelet:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.workers: dict[str, PodWorker] = {}
        self.ending: dict[str, asyncio.Task[None]] = {}
        self.devices = DeviceManager(cluster)
        self.images: dict[str, str] = {}  # name -> digest, "" where it is not known
        self.shim = self._extract()
        node = cluster.store.get("nodes", "", cluster.node) or {}
        self._sweep()
        for image in node.get("status", {}).get("images") or []:
            names = list(image.get("names") or [])
            digests = [name.partition("@")[2] for name in names if "@" in name]
            self.images |= dict.fromkeys(names, digests[0] if digests else "")

    def pulled(self, name: str, digest: str) -> None:
        """An image is on the node now, under its name and under its digest."""
        self.images[name] = digest
        if digest and "@" not in name:
            self.images[f"{name.rpartition(':')[0]}@{digest}"] = digest

    def _names(self) -> list[list[str]]:
        """The names of each image."""
        found: dict[str, list[str]] = {}
        for name, digest in sorted(self.images.items(), key=lambda one: "@" not in one[0]):
            found.setdefault(digest or name, []).append(name)
        return list(found.values())

    def _sweep(self) -> None:
        """Containers whose pods were removed while k3s was away."""
        known = {
            s.get("containerID", "").removeprefix("containerd://")
            for p in self.cluster.pods()
            for kind in ("containerStatuses", "initContainerStatuses")
            for s in p.get("status", {}).get(kind) or []
        }
        for folder in paths.on_node(paths.CONTAINERS).glob("*"):
            if folder.name not in known:
                orphan = Real(folder.name)
                orphan.kill()
                orphan.forget()

    def _extract(self) -> Path:
        """k3s unpacks its helpers into the data folder; k3s-killall.sh finds shims by this path."""
        target = paths.on_node(f"{paths.DATA}/data/rehearsal/bin/containerd-shim-runc-v2")
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_suffix(".new")
        scratch.write_bytes(self._shim_source())
        scratch.chmod(0o755)
        scratch.replace(target)
        current = paths.on_node(f"{paths.DATA}/data/current")
        if not current.is_symlink():
            current.symlink_to("rehearsal")
        return target

    def _shim_source(self) -> bytes:
        loader = shim_module.__loader__
        return loader.get_data(shim_module.__file__)  # type: ignore[union-attr]

    def sync(self, _cluster: Cluster) -> None:
        present = set()
        for pod in self.cluster.pods():
            if pod["spec"].get("nodeName") != self.cluster.node:
                continue
            uid = pod["metadata"]["uid"]
            present.add(uid)
            if is_leaving(pod):
                self._end(pod)
            elif uid not in self.workers:
                self.workers[uid] = PodWorker(self.cluster, pod)
        for uid in set(self.workers) - present:
            if uid not in self.ending:  # removed without grace
                self.ending[uid] = asyncio.ensure_future(self._finish(uid, 0.0))
        self._status()

    def _end(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self.ending:
            return
        if uid not in self.workers:
            self.workers[uid] = PodWorker(self.cluster, pod)
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 30))
        self.ending[uid] = asyncio.ensure_future(self._finish(uid, grace))

    async def _finish(self, uid: str, grace: float) -> None:
        await asyncio.sleep(0)  # lets a worker that was made a moment ago take its containers over
        await self.workers[uid].terminate(grace)
        self.workers.pop(uid, None)
        self.ending.pop(uid, None)

    def next_address(self, pod: Object) -> str:
        if pod["spec"].get("hostNetwork"):
            return self.cluster.address
        taken = {p.get("status", {}).get("podIP") for p in self.cluster.pods()}
        node = self.cluster.store.get("nodes", "", self.cluster.node) or {"spec": {}}
        prefix = node["spec"].get("podCIDR", "10.42.0.0/24").rpartition(".")[0]
        start = self.cluster.memory.get("last_ip", 1)
        for step in range(1, 253):
            number = 2 + (start - 1 + step) % 252
            if f"{prefix}.{number}" not in taken:
                self.cluster.memory["last_ip"] = number
                return f"{prefix}.{number}"
        raise RuntimeError("no free pod address")

    def reassert(self) -> None:
        """Says again how its pods are, where others came to think otherwise while this node was away."""
        for worker in list(self.workers.values()):
            if worker.states and not worker.leaving:
                with contextlib.suppress(asyncio.CancelledError):
                    worker.say()

    def _status(self) -> None:
        node = self.cluster.store.get("nodes", "", self.cluster.node)
        if node is None or "capacity" not in node.get("status", {}):
            return
        wanted = self.devices.counts(node["status"]["allocatable"])
        images = [{"names": names, "sizeBytes": 123456789} for names in self._names()]

        def change(obj: Object) -> None:
            obj["status"]["capacity"].update(wanted)
            obj["status"]["allocatable"].update(wanted)
            obj["status"]["images"] = images

        self.cluster.store.modify("nodes", "", self.cluster.node, change)
