"""The lab's run as evidence: every claim holds. Tests change one part and look what that does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hami_k3s.isolation.evidence import (
    Allocation,
    Card,
    ContainerdConfig,
    Durable,
    Event,
    Evidence,
    Mechanism,
    Pod,
    PodView,
    ProbeResult,
    ProbeRun,
    Providers,
    Registration,
    Sight,
    Webhook,
)
from hami_k3s.isolation.parse import gpu_environment, parse_registration
from hami_k3s.isolation.plan import plan

HERE = Path(__file__).parent
NODE = "hami-lab-rtx6000"
UUID = "GPU-3c4a3856-fbb4-1425-9679-aed25f4d2977"
OTHER_UUID = "GPU-00000000-0000-0000-0000-000000000001"
CARD = Card(
    0, UUID, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, 0, 97200, "Disabled", "610.43.02", "12.0"
)
PLAN = plan(97887, 97200, overask_mib=90000)


def recorded(name: str) -> str:
    """The text of a recording, `lab/probe-stderr.txt` or `h200/messages.txt`."""
    return (HERE / name).read_text(encoding="utf-8")


def share_pod(letter: str) -> Pod:
    """One of the two pods of step 5."""
    name = f"hami-share-{letter}"
    return Pod(
        name,
        "Running",
        NODE,
        (Allocation(UUID, 8000),),
        (
            Event("Scheduled", "hami-scheduler", f"Successfully assigned default/{name} to {NODE}"),
            Event(
                "FilteringSucceed",
                "hami-scheduler",
                f"find fit node({NODE}), 0 nodes not fit, 1 nodes fit({NODE}:0.00)",
            ),
            Event(
                "BindingSucceed", "hami-scheduler", f"Successfully binding node [{NODE}] to default/{name}"
            ),
        ),
    )


OVERASK = Pod(
    "hami-oversubscribe",
    "Pending",
    None,
    (),
    (
        Event(
            "FailedScheduling",
            "hami-scheduler",
            "0/1 nodes are available: 1 NodeUnfitPod. no new claims to deallocate, preemption: 0/1 nodes are "
            "available: 1 No preemption victims found for incoming pod.",
            "Warning",
        ),
        Event(
            "FilteringFailed", "hami-scheduler", f"1 nodes CardInsufficientMemory({NODE})", "Warning", count=2
        ),
    ),
)
PROBE = ProbeRun(
    "hami-share-a",
    0,
    ProbeResult(
        measured=True,
        refused=True,
        allocated_mib=7424,
        chunk_mib=256,
        cap_mib=8704,
        rc=2,
        rc_name="CUDA_ERROR_OUT_OF_MEMORY",
    ),
    stderr=recorded("lab/probe-stderr.txt"),
    host_free_mib=89200,
    host_used_mib=8000,
)
MECHANISM = Mechanism(
    "hami-share-a",
    gpu_environment(recorded("lab/environment.txt")),
    recorded("lab/ld.so.preload"),
    "/usr/local/vgpu/libvgpu.so",
)


NEIGHBOUR = replace(PROBE, pod="hami-share-b", host_free_mib=81200, host_used_mib=15950)
CONTROL = ProbeRun(
    "hami-control",
    0,
    ProbeResult(measured=True, refused=False, allocated_mib=8704, chunk_mib=256, cap_mib=8704),
    host_free_mib=88000,
    host_used_mib=9250,
)
FITTED = replace(
    share_pod("oversubscribe"),
    name="hami-oversubscribe",
    allocated=(Allocation(UUID, 90000),),
)


def route(name: str, refused: bool = True, **changes: Any) -> ProbeRun:
    """One route as HAMi-core refuses it, or does not."""
    result = replace(
        PROBE.result,
        refused=refused,
        route=name,
        rc=2 if refused else 0,
        allocated_mib=7424 if refused else 8704,
    )
    said = PROBE.stderr if refused else ""
    return replace(PROBE, **{"result": result, "route": name, "stderr": said, "stdout": said, **changes})


ROUTES = tuple(map(route, ("pitch", "async", "pool", "vmm", "array", "managed")))
VIEW = PodView("hami-share-a", UUID, 8000, 0, recorded("lab/nvidia-smi-pod.txt"))
DURABLE = Durable(
    survivor_before=share_pod("before"),
    survivor=share_pod("before"),
    survivor_view=VIEW,
    survivor_probe=PROBE,
    newcomer=share_pod("after"),
    newcomer_view=VIEW,
    newcomer_mechanism=MECHANISM,
    newcomer_probe=PROBE,
    seconds=12,
)


def evidence(**changes: Any) -> Evidence:
    """The lab's evidence, with these parts changed."""
    register = recorded("lab/node-nvidia-register.json")
    whole = Evidence(
        host="rtx-1",
        node=NODE,
        card_uuid=UUID,
        plan=PLAN,
        cards=(CARD,),
        kernel_module="610.43.02",
        containerd=ContainerdConfig(3, "nvidia", {"nvidia": "/usr/bin/nvidia-container-runtime"}),
        default_handler="nvidia",
        providers=Providers(),
        server_version="v1.36.2+k3s1",
        scheduler_images=("registry.k8s.io/kube-scheduler:v1.36.2",),
        webhook=Webhook(("10.42.0.9:443",), "hami-scheduler"),
        registration=Registration(parse_registration(register), register, "Requesting_2026-07-07 10:20:00"),
        allocatable=10,
        split_count=10,
        share_pods=(share_pod("a"), share_pod("b")),
        overask_pod=OVERASK,
        view=VIEW,
        mechanism=MECHANISM,
        probe=PROBE,
        neighbour=NEIGHBOUR,
        routes=ROUTES,
        control=CONTROL,
        pending_control=FITTED,
        no_request=(Sight("plain"), Sight("asks-for-all", visible="none")),
        durable=DURABLE,
        node_ready=True,
    )
    return replace(whole, **changes)
