"""HAMi is done when the cluster shows it: each thing that may be missing is named, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.facts.hami import HANDSHAKE, REGISTER, HamiPod, HamiState
from hami_k3s.facts.kubernetes import Node
from hami_k3s.facts.nvidia import NvidiaState
from hami_k3s.gates import explain_plugin_log, problems, registration_missing
from hami_k3s.isolation.evidence import Webhook
from tests.recorded.lab import CARD, OTHER_UUID, UUID, recorded

REGISTERED = recorded("lab/node-nvidia-register.json").strip()
NODE = Node(
    "gpu-1",
    True,
    labels={"gpu": "on"},
    annotations={REGISTER: REGISTERED, HANDSHAKE: "Requesting_2026-07-07 10:20:00"},
    allocatable={"nvidia.com/gpu": "10"},
    kubelet="v1.36.2+k3s1",
)
SCHEDULER = HamiPod(
    "hami-scheduler-x",
    "hami-scheduler",
    "gpu-1",
    "Running",
    True,
    {
        "kube-scheduler": "registry.k8s.io/kube-scheduler:v1.36.2",
        "vgpu-scheduler-extender": "projecthami/hami:v2.9.0",
    },
)
PLUGIN = HamiPod("hami-device-plugin-x", "hami-device-plugin", "gpu-1", "Running", True)
DONE = HamiState(
    server_version="v1.36.2+k3s1",
    nodes={"gpu-1": NODE},
    own_node="gpu-1",
    pods=(SCHEDULER, PLUGIN),
    webhook=Webhook(("10.42.0.9",), "hami-scheduler"),
    dry_run_answer="hami-scheduler",
    nvidia=NvidiaState(cards=(CARD,), message="ok"),
)


def node(**changes: Any) -> dict[str, Any]:
    return {"nodes": {"gpu-1": replace(NODE, **changes)}}


def register(old: str, new: str) -> dict[str, Any]:
    assert old in REGISTERED
    return node(annotations={REGISTER: REGISTERED.replace(old, new)})


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("api", {"nodes": None}, "the API server does not answer"),
    ("version", {"server_version": None}, "the API server does not answer"),
    ("node", {"own_node": "gpu-2"}, "node gpu-2 is not in the cluster"),
    ("no scheduler", {"pods": (PLUGIN,)}, "there is no scheduler pod of HAMi"),
    (
        "scheduler waits",
        {
            "pods": (
                replace(
                    SCHEDULER, phase="Pending", ready=False, waiting=("kube-scheduler: ImagePullBackOff",)
                ),
                PLUGIN,
            )
        },
        "scheduler pod hami-scheduler-x is Pending, not ready (kube-scheduler: ImagePullBackOff)",
    ),
    (
        "scheduler version",
        {"server_version": "v1.37.0+k3s1"},
        "the running kube-scheduler is registry.k8s.io/kube-scheduler:v1.36.2, the API server is v1.37.0+k3s1",
    ),
    (
        "no plugin, no label",
        {"pods": (SCHEDULER,), **node(labels={})},
        "no device plugin pod on node gpu-1 (its label gpu=is missing; HAMi wants gpu=on)",
    ),
    ("no plugin", {"pods": (SCHEDULER, replace(PLUGIN, node="gpu-2"))}, "no device plugin pod on node gpu-1"),
    (
        "plugin waits",
        {"pods": (SCHEDULER, replace(PLUGIN, ready=False))},
        "device plugin pod hami-device-plugin-x is Running",
    ),
    ("cards", {"nvidia": NvidiaState(message="command not found")}, "cannot be read: command not found"),
    ("not registered", node(annotations={}), f"no annotation {REGISTER}"),
    ("not a registration", node(annotations={REGISTER: "{"}), f"{REGISTER}: not JSON"),
    ("unhealthy", register('"health":true,', ""), f"card {UUID} is registered as unhealthy"),
    ("memory", register("97887", "48943"), f"card {UUID} is registered with 48943 MiB, expected 97887"),
    (
        "deleted",
        node(annotations={REGISTER: REGISTERED, HANDSHAKE: "Deleted_2026-07-07 10:20:00"}),
        "HAMi's scheduler took node gpu-1 out of its pool",
    ),
    (
        "allocatable",
        node(allocatable={"nvidia.com/gpu": "1"}),
        "allocatable nvidia.com/gpu is 1, expected 10",
    ),
    ("allocatable", node(allocatable={}), "allocatable nvidia.com/gpu is 0, expected 10"),
    (
        "no webhook",
        {"webhook": None, "errors": {"webhooks": "HAMi is not installed"}},
        "HAMi is not installed",
    ),
    ("certificate", {"webhook": Webhook(("10.42.0.9",), "hami-scheduler", ca_bundle=False)}, "no caBundle"),
    ("endpoints", {"webhook": Webhook((), "default-scheduler")}, "the webhook has no endpoints yet"),
    (
        "redirect",
        {"webhook": Webhook(("10.42.0.9",), "default-scheduler")},
        "a dry-run GPU pod goes to default-scheduler, not to hami-scheduler",
    ),
    (
        "refused",
        {"webhook": Webhook(("10.42.0.9",), None), "dry_run_answer": "Error from server"},
        "a dry-run GPU pod goes to Error from server",
    ),
]


def test_done() -> None:
    assert problems(DONE, {}) == []


@pytest.mark.parametrize(("changes", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_one_thing_is_missing(changes: dict[str, Any], words: str) -> None:
    found = problems(replace(DONE, **changes), {})
    assert len(found) == 1, found
    assert words in found[0]


def test_stale_registration_names_both_cards() -> None:
    """A registration of a card that is gone looks valid: only the host's UUIDs show it."""
    found = problems(replace(DONE, **register(UUID, OTHER_UUID)), {})
    assert found == [
        f"card {UUID} is not registered",
        f"registered card {OTHER_UUID} is not in this host: the registration is stale",
    ]


def test_several_problems_come_together() -> None:
    bare = replace(DONE, pods=(), webhook=Webhook((), None), **node(annotations={}, allocatable={}))
    assert len(problems(bare, {})) == 4


def test_user_values_change_what_is_expected() -> None:
    values = {"devicePlugin": {"deviceSplitCount": 4, "deviceMemoryScaling": 2}}
    scaled = register("97887", str(2 * 97887))
    (annotated,) = scaled["nodes"].values()
    good = replace(DONE, nodes={"gpu-1": replace(annotated, allocatable={"nvidia.com/gpu": "4"})})
    assert problems(good, values) == []
    assert len(problems(good, {})) == 2


def test_rounded_memory_is_within_tolerance() -> None:
    assert problems(replace(DONE, **register("97887", "97800")), {}) == []


def test_two_cards() -> None:
    both = NvidiaState(cards=(CARD, replace(CARD, index=1, uuid=OTHER_UUID)), message="ok")
    found = problems(replace(DONE, nvidia=both), {})
    assert found == [f"card {OTHER_UUID} is not registered", "allocatable nvidia.com/gpu is 10, expected 20"]


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, False),
        (node(annotations={}), True),
        ({"pods": (SCHEDULER,), **node(annotations={})}, False),  # no plugin: restarting it is no help
        ({"pods": (SCHEDULER, replace(PLUGIN, ready=False)), **node(annotations={})}, False),
        ({"pods": None, **node(annotations={})}, False),
        ({"nodes": None}, False),  # unknown is not missing
        ({"own_node": "gpu-2"}, False),
    ],
)
def test_plugin_that_registered_nothing(changes: dict[str, Any], missing: bool) -> None:
    assert registration_missing(replace(DONE, **changes)) is missing


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("I0707 No devices found. Waiting indefinitely.", "was not started by NVIDIA's runtime"),
        ("could not load NVML library: libnvidia-ml.so.1", "no driver library"),
        ("Incompatible strategy detected auto", "devicePlugin.nvidiaDriverRoot in hami_values"),
        ("Failed to initialize NVML: driver not loaded", "kernel module is not loaded"),
    ],
)
def test_plugin_log_is_explained(line: str, words: str) -> None:
    assert words in (explain_plugin_log(f"first\n{line}\nlast") or "")


def test_plugin_log_that_nobody_knows() -> None:
    assert explain_plugin_log("Registered device plugin for nvidia.com/gpu") is None
