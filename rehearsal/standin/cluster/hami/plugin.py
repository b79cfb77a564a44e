"""HAMi's device plugin: registers the cards, advertises their slots to kubelet, and injects HAMi-core into containers."""

import asyncio
import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from .. import machine, paths
from ..cluster import Cluster
from ..kubelet import programs
from ..kubelet.container import Played
from ..kubelet.devices import AdmissionError, Grant
from . import accounting, release
from .registration import ANNOTATION, Card, encode, kind_of
from .scheduler import LOCK

Object = dict[str, Any]
VGPU = "/usr/local/vgpu"
SOURCE = "/usr/lib/rehearsal/libvgpu.so"
SCAN_EVERY = 5.0  # s; the real one looks every 30 s
# The fault plays from the next start of k3s on, not before.
LOSES = machine.fault("lost-after-restart") is not None
RESTING = "No devices found. Waiting indefinitely."


def register() -> None:
    programs.register(lambda c: c.image.kind == "hami" and c.spec["name"] == release.PLUGIN, device_plugin)


def visible_cards(context: programs.Context) -> list[Object]:
    """The plugin sees the driver only when the nvidia runtime started its container."""
    binary = context.cluster.daemon.binary(context.handler)
    if (
        binary is None
        or not paths.on_node(binary).exists()
        or machine.fault("registered-nothing") is not None
    ):
        return []
    return machine.cards()


class Plugin:
    name = "hami"

    def __init__(self, context: programs.Context, held: Played, config: Object) -> None:
        self.context, self.owner, self.config = context, held.id, config
        self.version = release.version_of(context.image.name)

    @property
    def cluster(self) -> Cluster:
        return self.context.cluster

    def cards(self) -> list[Card]:
        mine = self._node_config()
        split = int(mine.get("devicesplitcount") or self._given("device-split-count", "deviceSplitCount", 10))
        memory = float(
            mine.get("devicememoryscaling") or self._given("device-memory-scaling", "deviceMemoryScaling", 1)
        )
        cores = float(self._given("device-cores-scaling", "deviceCoreScaling", 1))
        hidden = mine.get("filterdevices") or {}
        found = []
        for card in visible_cards(self.context):
            if card["uuid"] in (hidden.get("uuid") or []) or card["index"] in (hidden.get("index") or []):
                continue
            found.append(
                Card(
                    uuid=card["uuid"],
                    index=card["index"],
                    count=split,
                    memory=int(card["memory_mib"] * memory),
                    cores=int(100 * cores),
                    kind=kind_of(card["name"], self.version),
                    healthy=card.get("healthy", True) and machine.fault("unhealthy-card") is None,
                    numa=card.get("numa", 0),
                )
            )
        return found

    @property
    def memory_scaling(self) -> float:
        mine = self._node_config().get("devicememoryscaling")
        return float(mine or self._given("device-memory-scaling", "deviceMemoryScaling", 1))

    def _given(self, flag: str, key: str, default: float) -> Any:
        value = self.context.arguments.get(flag)
        return value if value not in (None, "") else self.config.get(key, default)

    def _node_config(self) -> Object:
        """This node's entry in config.json; entries of other names are ignored silently."""
        for volume in self.context.pod["spec"].get("volumes") or []:
            name = (volume.get("configMap") or {}).get("name")
            obj = self.cluster.store.get("configmaps", self.context.pod["metadata"]["namespace"], name or "")
            text = ((obj or {}).get("data") or {}).get("config.json")
            if text:
                entries = json.loads(text).get("nodeconfig") or []
                return next((e for e in entries if e.get("name") == self.cluster.node), {})
        return {}

    # --- kubelet's side

    def count(self) -> int:
        return sum(c.count for c in self.cards() if c.healthy)

    def allocate(self, pod: Object, container: Object, amount: int) -> Grant:
        annotations = pod["metadata"].get("annotations") or {}
        node = self.cluster.node
        if (
            annotations.get("hami.io/bind-phase") != "allocating"
            or annotations.get("hami.io/vgpu-node") != node
        ):
            text = f"rpc error: code = Unknown desc = no binding pod found on node {node}"
            raise AdmissionError(f"Allocate failed due to {text}, which is unexpected")
        names = [c["name"] for c in pod["spec"]["containers"]]
        devices = accounting.decode_devices(annotations[accounting.TO_ALLOCATE])[
            names.index(container["name"])
        ]
        if len(devices) != amount:
            self._phase(pod, "failed")
            text = "rpc error: code = Unknown desc = device number not matched"
            raise AdmissionError(f"Allocate failed due to {text}, which is unexpected")
        grant = Grant(self._env(devices), self._mounts(pod, container))
        others = [c for c in pod["spec"]["containers"][names.index(container["name"]) + 1 :] if _asks(c)]
        if not others:
            self._phase(pod, "success")
        return grant

    def _env(self, devices: list[accounting.Device]) -> dict[str, str]:
        env = {f"CUDA_DEVICE_MEMORY_LIMIT_{n}": f"{d.memory}m" for n, d in enumerate(devices)}
        env["CUDA_DEVICE_SM_LIMIT"] = str(devices[0].cores)
        env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{VGPU}/{uuid.uuid4()}.cache"
        env["LIBCUDA_LOG_LEVEL"] = str(self.config.get("libCudaLogLevel", 1))
        env["NVIDIA_VISIBLE_DEVICES"] = ",".join(d.uuid for d in devices)
        if self.memory_scaling > 1:
            env["CUDA_OVERSUBSCRIBE"] = "true"
        if str(self.context.arguments.get("disable-core-limit", "false")).lower() == "true":
            env["GPU_CORE_UTILIZATION_POLICY"] = "disable"
        return env

    def _mounts(self, pod: Object, container: Object) -> list[tuple[str, str, bool]]:
        own = f"{VGPU}/containers/{pod['metadata']['uid']}_{container['name']}"
        for folder in (own, "/tmp/vgpulock"):
            paths.on_node(folder).mkdir(parents=True, exist_ok=True)
            paths.on_node(folder).chmod(0o777)
        library = f"{VGPU}/libvgpu.so.v{'.'.join(map(str, self.version))}"
        if not paths.on_node(library).exists():
            library = f"{VGPU}/libvgpu.so"
        mounts = [
            (own, VGPU, False),
            (library, f"{VGPU}/libvgpu.so", True),
            ("/tmp/vgpulock", "/tmp/vgpulock", False),
        ]
        literal = {
            e["name"]: str(e.get("value", "")).lower() for e in container.get("env") or [] if "value" in e
        }
        opted_out = literal.get("CUDA_DISABLE_CONTROL") in ("1", "t", "true")
        if opted_out and machine.fault("control-refused") is None:
            return mounts
        if machine.fault("preload-missing") is not None or (
            LOSES and machine.fault("lost-after-restart") is not None
        ):
            return mounts
        return [*mounts, (self._preload(), "/etc/ld.so.preload", True)]

    def _preload(self) -> str:
        """The file of the host that becomes /etc/ld.so.preload."""
        if machine.fault("preload-other") is None:
            return f"{VGPU}/ld.so.preload"
        other = f"{VGPU}/ld.so.preload.other"
        paths.on_node(other).write_text("/usr/local/lib/libother.so\n")
        return other

    def _phase(self, pod: Object, phase: str) -> None:
        def done(obj: Object) -> None:
            obj["metadata"]["annotations"]["hami.io/bind-phase"] = phase
            if phase == "success":
                obj["metadata"]["annotations"][accounting.TO_ALLOCATE] = ";"

        self.cluster.store.modify("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], done)
        self.cluster.store.modify(
            "nodes", "", self.cluster.node, lambda o: o["metadata"]["annotations"].pop(LOCK, None)
        )


def _asks(container: Object) -> bool:
    return "nvidia.com/gpu" in ((container.get("resources") or {}).get("limits") or {})


def init_host(version: tuple[int, int, int]) -> None:
    """postStart's vgpu-init.sh: the library under its versioned name too, so that an upgrade leaves running pods alone."""
    source, target = paths.on_node(SOURCE), paths.on_node(VGPU)
    target.mkdir(parents=True, exist_ok=True)
    if source.exists():
        content = source.read_bytes()
        for name in (f"libvgpu.so.v{'.'.join(map(str, version))}", "libvgpu.so"):
            _copy(target / name, content, 0o755)
    _copy(target / "ld.so.preload", f"{VGPU}/libvgpu.so\n".encode(), 0o644)
    (target / "containers").mkdir(exist_ok=True)


def _copy(path: Path, content: bytes, mode: int) -> None:
    if path.exists() and path.read_bytes() == content:
        return
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content)
    scratch.chmod(mode)
    shutil.move(scratch, path)


async def device_plugin(context: programs.Context, held: Played) -> int:
    cluster = context.cluster
    version = release.version_of(context.image.name)
    plugin = Plugin(context, held, release.device_config(cluster, context.pod))
    if not context.adopted:
        init_host(version)
    held.log("I1201 main.go:146] Starting FS watcher.")
    binary = cluster.daemon.binary(context.handler)
    if binary is None:
        held.log(
            "E1201 factory.go:104] could not load NVML library: libnvidia-ml.so.1: cannot open shared object file"
        )
        held.log("E1201 factory.go:77] Incompatible strategy detected auto")
    await asyncio.sleep(1.0)
    resource = plugin.config.get("resourceCountName", "nvidia.com/gpu")
    said = False
    try:
        while True:
            cards = plugin.cards()
            owner = cluster.kubelet.devices.plugins.get(resource)
            if not cards:
                if not said:
                    held.log(f"I1201 main.go:314] {RESTING}")
                    said = True
                cluster.kubelet.devices.unregister(resource, held.id)
            else:
                if owner is None:
                    cluster.kubelet.devices.register(resource, plugin)
                    held.log(f"I1201 server.go:271] Registered device plugin for '{resource}' with Kubelet")
                    cluster.store.changed.set()
                _annotate(context, held, encode(cards, version), version)
            await asyncio.sleep(SCAN_EVERY)
    finally:
        cluster.kubelet.devices.unregister(resource, held.id)
        cluster.store.changed.set()


def _annotate(context: programs.Context, held: Played, text: str, version: tuple[int, int, int]) -> None:
    """From 2.8 on only what differs from the plugin's own copy is written: an annotation that somebody deleted stays away."""
    if version >= (2, 8, 0) and held.recall().get("digest") == text:
        return
    held.remember(digest=text)
    context.cluster.store.modify(
        "nodes",
        "",
        context.cluster.node,
        lambda o: o["metadata"].setdefault("annotations", {}).update({ANNOTATION: text}),
    )
    held.log(f"I1201 register.go:221] registered {text}")
