"""When HAMi is really done: judged from what the cluster shows, not from what was set. Pure functions."""

from __future__ import annotations

import re
from typing import Any

from hami_k3s import releases
from hami_k3s.facts.hami import HANDSHAKE, REGISTER, HamiState, memory_scaling, split_count
from hami_k3s.facts.kubernetes import Node
from hami_k3s.isolation.parse import ParseError, parse_handshake, parse_registration

# What the device plugin logs when it runs and is of no use, and what it means.
PLUGIN_LOG = (
    (
        r"No devices found\. Waiting indefinitely",
        "the plugin sees no card: its pod was not started by NVIDIA's runtime, or the driver does not answer in it; "
        "check `nvidia-smi` on the host, then `systemctl restart k3s` and delete the plugin's pod",
    ),
    (
        r"could not load NVML library|libnvidia-ml",
        "the plugin's pod has no driver library: it was not started by NVIDIA's runtime; "
        "check default_runtime_name in containerd's config, then delete the plugin's pod",
    ),
    (
        r"Incompatible strategy detected",
        "the plugin cannot tell how to find devices: set devicePlugin.nvidiaDriverRoot in hami_values "
        "if the driver is not under /",
    ),
    (r"driver not loaded", "the driver's kernel module is not loaded: `nvidia-smi` on the host says why"),
)


def explain_plugin_log(text: str) -> str | None:
    """One sentence for the first line of the plugin's log that is known, or None."""
    return next((meaning for pattern, meaning in PLUGIN_LOG if re.search(pattern, text)), None)


def _nodes_of(state: HamiState) -> list[Node]:
    own = (state.nodes or {}).get(state.own_node or "")
    return [own] if own else []


def problems(state: HamiState, values: dict[str, Any]) -> list[str]:
    """What still separates this host's node from "done", in the order in which things come up; empty when done.

    + values: the release's user values
    """
    if state.nodes is None or state.pods is None or state.server_version is None:
        return ["the API server does not answer"]
    own = state.nodes.get(state.own_node or "")
    if own is None:
        return [f"node {state.own_node} is not in the cluster"]
    found = [*_scheduler(state), *_plugin(state, own), *_registration(state, own, values), *webhook(state)]
    return found


def _scheduler(state: HamiState) -> list[str]:
    tag = releases.scheduler_tag(state.server_version or "")
    pods = [pod for pod in state.pods or () if pod.component == "hami-scheduler"]
    if not pods:
        return ["there is no scheduler pod of HAMi"]
    found = []
    for pod in pods:
        if pod.phase != "Running" or not pod.ready:
            found.append(f"scheduler pod {pod.name} is {pod.phase}, not ready{_because(pod.waiting)}")
        image = pod.images.get("kube-scheduler")
        if image is not None and image.partition("@")[0].rpartition(":")[2] != tag:
            found.append(f"the running kube-scheduler is {image}, the API server is {state.server_version}")
    return found


def _plugin(state: HamiState, own: Node) -> list[str]:
    pods = [pod for pod in state.pods or () if pod.component == "hami-device-plugin" and pod.node == own.name]
    if not pods:
        label = own.labels.get("gpu")
        return [
            f"no device plugin pod on node {own.name} (its label gpu={label or 'is missing'}; HAMi wants gpu=on)"
        ]
    return [
        f"device plugin pod {pod.name} is {pod.phase}, not ready{_because(pod.waiting)}"
        for pod in pods
        if not pod.ready
    ]


def _because(waiting: tuple[str, ...]) -> str:
    return f" ({', '.join(waiting)})" if waiting else ""


def registration_missing(state: HamiState) -> bool:
    """The plugin runs on this node and has registered nothing at all."""
    return state.pods is not None and any(
        REGISTER not in node.annotations and not _plugin(state, node) for node in _nodes_of(state)
    )


def _registration(state: HamiState, own: Node, values: dict[str, Any]) -> list[str]:
    cards = state.nvidia.cards
    if not cards:
        return [f"the host's cards cannot be read: {state.nvidia.message}"]
    text = own.annotations.get(REGISTER)
    if text is None:
        return [f"node {own.name} has no annotation {REGISTER}: no card is registered"]
    try:
        devices = {device.uuid: device for device in parse_registration(text)}
    except ParseError as error:
        return [str(error)]
    found = []
    if parse_handshake(own.annotations.get(HANDSHAKE)).state == "deleted":
        found.append(f"HAMi's scheduler took node {own.name} out of its pool ({HANDSHAKE})")
    for card in cards:
        device = devices.pop(card.uuid, None)
        wanted = card.memory_mib * memory_scaling(values)
        if device is None:
            found.append(f"card {card.uuid} is not registered")
        elif not device.healthy:
            found.append(f"card {card.uuid} is registered as unhealthy")
        elif abs(device.memory_mib - wanted) > 0.01 * wanted:
            found.append(
                f"card {card.uuid} is registered with {device.memory_mib} MiB, expected {wanted:.0f}"
            )
    found += [f"registered card {uuid} is not in this host: the registration is stale" for uuid in devices]
    wanted_count = len(cards) * split_count(values)
    allocatable = own.allocatable.get("nvidia.com/gpu", "0")
    if allocatable != str(wanted_count):
        found.append(f"allocatable nvidia.com/gpu is {allocatable}, expected {wanted_count}")
    return found


def webhook(state: HamiState) -> list[str]:
    """Why a GPU pod that is created now might not go to HAMi's scheduler; empty when it does."""
    if state.webhook is None:
        return [state.errors.get("webhooks") or state.errors.get("slices") or "HAMi's webhook cannot be read"]
    found = []
    if not state.webhook.ca_bundle:
        found.append("the webhook has no caBundle: its certificate job has not run")
    if not state.webhook.endpoints:
        found.append("the webhook has no endpoints yet: GPU pods would go to the default scheduler")
    elif state.webhook.dry_run_scheduler != "hami-scheduler":
        seen = state.webhook.dry_run_scheduler or state.dry_run_answer
        found.append(f"a dry-run GPU pod goes to {seen}, not to hami-scheduler")
    return found
