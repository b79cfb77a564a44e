"""NVIDIA's own device plugin, for the rehearsal of a host that has it too: it takes the socket, so HAMi's is not asked."""

import asyncio
from typing import Any

from .. import machine, paths
from ..kubelet import programs
from ..kubelet.container import Played
from ..kubelet.devices import AdmissionError, Grant

Object = dict[str, Any]
RESOURCE = "nvidia.com/gpu"


def register() -> None:
    programs.register(lambda c: c.image.kind == "nvidia-plugin", nvidia_plugin)


class Plugin:
    name = "nvidia"

    def __init__(self, context: programs.Context, held: Played) -> None:
        self.context, self.owner = context, held.id

    def cards(self) -> list[Object]:
        binary = self.context.cluster.daemon.binary(self.context.handler)
        return machine.cards() if binary and paths.on_node(binary).exists() else []

    def count(self) -> int:
        return len(self.cards())

    def allocate(self, pod: Object, _container: Object, amount: int) -> Grant:
        memory = self.context.cluster.memory.setdefault("nvidia-plugin", {})
        alive = {p["metadata"]["uid"] for p in self.context.cluster.pods()}
        for uid in [u for u in memory if u not in alive]:
            del memory[uid]
        taken = {u for found in memory.values() for u in found}
        free = [c["uuid"] for c in self.cards() if c["uuid"] not in taken]
        if len(free) < amount:
            text = f"requested number of devices unavailable for {RESOURCE}. Requested: {amount}, Available: {len(free)}"
            raise AdmissionError(f"Allocate failed due to {text}, which is unexpected")
        memory[pod["metadata"]["uid"]] = free[:amount]
        return Grant({"NVIDIA_VISIBLE_DEVICES": ",".join(free[:amount])}, [])


async def nvidia_plugin(context: programs.Context, held: Played) -> int:
    manager = context.cluster.kubelet.devices
    plugin = Plugin(context, held)
    await asyncio.sleep(1.0)
    try:
        while True:
            idle = machine.fault("second-device-plugin") == "idle"
            if not idle and plugin.cards() and manager.plugins.get(RESOURCE) is not plugin:
                manager.register(RESOURCE, plugin)
                held.log(f"I1201 server.go:151] Registered device plugin for '{RESOURCE}' with Kubelet")
                context.cluster.store.changed.set()
            await asyncio.sleep(1.0)
    finally:
        manager.unregister(RESOURCE, held.id)
        context.cluster.store.changed.set()
