"""HAMi's ledger: what running pods hold of each card, and whether a request still fits."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .. import machine
from ..cluster import Cluster, is_active
from ..scheduling import quantity
from .registration import ANNOTATION, Card, decode
from .release import Scheduler

Object = dict[str, Any]
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


@dataclass
class Usage:
    card: Card
    pods: int = 0
    memory: int = 0
    cores: int = 0


@dataclass
class Request:
    """What one container asks for."""

    count: int
    memory: int = 0  # MiB per card; 0: by percentage
    percentage: int = 100
    cores: int = 0


@dataclass
class Device:
    uuid: str
    memory: int
    cores: int

    def __str__(self) -> str:
        return f"{self.uuid},NVIDIA,{self.memory},{self.cores}:"


@dataclass
class Verdict:
    """`devices`: one list for each container, or None when the node does not fit for `reasons`."""

    devices: list[list[Device]] | None
    reasons: Counter[str] = field(default_factory=Counter)
    score: float = 0.0


def encode(devices: list[list[Device]]) -> str:
    return "".join("".join(map(str, container)) + ";" for container in devices)


def decode_devices(text: str) -> list[list[Device]]:
    containers = []
    for part in text.split(";")[:-1]:
        found = []
        for entry in (e for e in part.split(":") if e):
            uuid, _, memory, cores = entry.split(",")
            found.append(Device(uuid, int(memory), int(cores)))
        containers.append(found)
    return containers


def requests(scheduler: Scheduler, pod: Object) -> list[Request]:
    """One entry for each container; count 0 where it asks for no card."""
    found = []
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        count = int(quantity(limits.get(scheduler.count, 0)))
        memory = int(quantity(limits.get(scheduler.memory, 0)))
        percentage = int(quantity(limits.get(scheduler.percentage, 100)))
        cores = int(quantity(limits.get(scheduler.cores, 0)))
        default = int(scheduler.config.get("defaultMemory") or 0)
        if not memory and scheduler.percentage not in limits and default:
            memory = default
        found.append(Request(count, memory, percentage, cores))
    return found


def usage(cluster: Cluster, node: Object) -> list[Usage]:
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    cards = {c.uuid: Usage(c) for c in decode(text)} if text else {}
    for pod in cluster.pods():
        annotations = pod["metadata"].get("annotations") or {}
        if annotations.get("hami.io/vgpu-node") != node["metadata"]["name"] or not is_active(pod):
            continue
        for device in [d for c in decode_devices(annotations.get(ALLOCATED, "")) for d in c]:
            if device.uuid in cards:
                held = cards[device.uuid]
                held.pods, held.memory, held.cores = (
                    held.pods + 1,
                    held.memory + device.memory,
                    held.cores + device.cores,
                )
    _leak(cluster, cards)
    return list(cards.values())


def _leak(cluster: Cluster, cards: dict[str, Usage]) -> None:
    """Broken on purpose: what pods held stays taken when they are gone."""
    if machine.fault("slices-never-freed") is None:
        cluster.memory.pop("leaked", None)
        return
    most = cluster.memory.setdefault("leaked", {})
    for uuid, held in cards.items():
        held.memory = most[uuid] = max(held.memory, most.get(uuid, 0))


def score(cards: list[Usage]) -> float:
    """Ten times the shares of slots, cores and memory in use before this pod."""
    slots, cores = sum(u.card.count for u in cards) or 1, sum(u.card.cores for u in cards) or 1
    memory = sum(u.card.memory for u in cards) or 1
    used = sum(u.pods for u in cards) / slots + sum(u.cores for u in cards) / cores
    return 10 * (used + sum(u.memory for u in cards) / memory)


def fit(cards: list[Usage], wanted: list[Request], annotations: dict[str, str], policy: str) -> Verdict:
    verdict = Verdict([], score=score(cards))
    for request in wanted:
        if not request.count:
            verdict.devices.append([])
            continue
        if request.count > len(cards):
            return Verdict(None, Counter({"NodeInsufficientDevice": 1}))
        chosen = _choose(cards, request, annotations, policy, verdict.reasons)
        if chosen is None:
            return Verdict(None, verdict.reasons)
        verdict.devices.append(chosen)
    return verdict


def _choose(
    cards: list[Usage], request: Request, annotations: dict[str, str], policy: str, reasons: Counter[str]
) -> list[Device] | None:
    chosen: list[Device] = []

    def order(held: Usage) -> tuple[float, int]:
        share = held.pods / held.card.count + held.memory / max(1, held.card.memory)
        return (share if policy == "spread" else -share, held.card.index)

    for held in sorted(cards, key=order):
        memory = request.memory or held.card.memory * request.percentage // 100
        if machine.fault("grant-halved") is not None:
            memory //= 2
        why = _refusal(held, request, memory, annotations)
        if why:
            reasons[why] += 1
            continue
        chosen.append(Device(held.card.uuid, memory, request.cores))
        held.pods, held.memory, held.cores = held.pods + 1, held.memory + memory, held.cores + request.cores
        if len(chosen) == request.count:
            return chosen
    if chosen:
        reasons["AllocatedCardsInsufficientRequest"] += len(cards)
    return None


def _listed(annotations: dict[str, str], key: str) -> list[str]:
    return [v.strip() for v in annotations.get(key, "").split(",") if v.strip()]


def _refusal(held: Usage, request: Request, memory: int, annotations: dict[str, str]) -> str | None:
    card = held.card
    if not card.healthy:
        return "CardNotHealth"
    use, avoid = (
        _listed(annotations, "nvidia.com/use-gputype"),
        _listed(annotations, "nvidia.com/nouse-gputype"),
    )
    kind = card.kind.lower()
    if (use and not any(u.lower() in kind for u in use)) or any(a.lower() in kind for a in avoid):
        return "CardTypeMismatch"
    use, avoid = (
        _listed(annotations, "nvidia.com/use-gpuuuid"),
        _listed(annotations, "nvidia.com/nouse-gpuuuid"),
    )
    if (use and card.uuid not in use) or card.uuid in avoid:
        return "CardUuidMismatch"
    if held.pods >= card.count:
        return "CardTimeSlicingExhausted"
    if card.memory - held.memory < memory and machine.fault("overask-scheduled") is None:
        return "CardInsufficientMemory"
    if card.cores - held.cores < request.cores:
        return "CardInsufficientCore"
    if request.cores == 100 and held.pods:
        return "ExclusiveDeviceAllocateConflict"
    if card.cores and held.cores >= card.cores and not request.cores:
        return "CardComputeUnitsExhausted"
    return None
