"""The claims about the host and the cluster, each failed for its own reason."""

from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.isolation.evidence import ContainerdConfig, Provider, Providers, Registration, Webhook
from hami_k3s.isolation.verdict import Status
from tests.recorded.lab import CARD, OTHER_UUID, evidence
from tests.recorded.one_change import Case, check, parameters, verdicts

FAIL, WARN, ERROR = Status.FAIL, Status.WARN, Status.ERROR
IDS = {"driver", "runtime", "sole-provider", "scheduler-version", "webhook", "registered", "allocatable"}
registration = evidence().registration
assert registration is not None
device = registration.devices[0]


def registered(**changes: Any) -> Registration:
    return replace(registration, **{"devices": (replace(device, **changes),)})


CASES: list[Case] = [
    ("no card", "driver", FAIL, {"cards": ()}, "lists no card"),
    ("MIG", "driver", FAIL, {"cards": (replace(CARD, mig="Enabled"),)}, "nvidia-smi -i 0 -mig 0"),
    ("driver mismatch", "driver", FAIL, {"kernel_module": "580.1.1"}, "reboot"),
    ("module not readable", "driver", WARN, {"kernel_module": None}, "could not be compared"),
    (
        "no default runtime",
        "runtime",
        FAIL,
        {"containerd": ContainerdConfig(2, None)},
        "default-runtime: nvidia",
    ),
    ("runc by default", "runtime", FAIL, {"containerd": ContainerdConfig(3, "runc")}, "restart k3s"),
    (
        "no binary",
        "runtime",
        FAIL,
        {"containerd": ContainerdConfig(3, "nvidia", {"runc": "/r"})},
        "BinaryName",
    ),
    ("another handler", "runtime", FAIL, {"default_handler": "runc"}, "ran under runc"),
    (
        "second plugin",
        "sole-provider",
        FAIL,
        {"providers": Providers((Provider("kube-system", "nvidia-device-plugin-daemonset"),))},
        "kubectl -n kube-system delete daemonset nvidia-device-plugin-daemonset",
    ),
    (
        "a manifest",
        "sole-provider",
        FAIL,
        {"providers": Providers((Provider("", "nvidia-device-plugin.yaml", kind="Manifest"),))},
        "/var/lib/rancher/k3s/server/manifests/nvidia-device-plugin.yaml",
    ),
    ("operator", "sole-provider", FAIL, {"providers": Providers((), True)}, "clusterpolicies.nvidia.com"),
    (
        "other scheduler",
        "scheduler-version",
        FAIL,
        {"scheduler_images": ("a/kube-scheduler:v1.31.4",)},
        "v1.31.4",
    ),
    (
        "one of two",
        "scheduler-version",
        FAIL,
        {"scheduler_images": ("s:v1.36.2", "s:v1.36.1")},
        "gpu_node.py",
    ),
    ("longer version", "scheduler-version", FAIL, {"scheduler_images": ("s:v1.36.20",)}, "v1.36.20"),
    ("no scheduler", "scheduler-version", FAIL, {"scheduler_images": ()}, "no kube-scheduler"),
    ("no tag", "scheduler-version", ERROR, {"scheduler_images": ("host:5000/s@sha256:ab",)}, "without a tag"),
    (
        "no endpoints",
        "webhook",
        FAIL,
        {"webhook": Webhook((), "default-scheduler")},
        "hami.io/scheduler-role=leader",
    ),
    (
        "not redirected",
        "webhook",
        FAIL,
        {"webhook": Webhook(("e",), "default-scheduler")},
        "failed calling webhook",
    ),
    ("no CA", "webhook", FAIL, {"webhook": Webhook(("e",), "hami-scheduler", False)}, "caBundle"),
    ("no dry run", "webhook", ERROR, {"webhook": Webhook(("e",), None)}, "dry-run pod"),
    ("nothing", "registered", FAIL, {"registration": Registration(())}, "registered nothing"),
    (
        "stale",
        "registered",
        FAIL,
        {"registration": registered(uuid=OTHER_UUID)},
        f"not on this host: {OTHER_UUID}",
    ),
    (
        "one of two",
        "registered",
        FAIL,
        {"cards": (CARD, replace(CARD, index=1, uuid=OTHER_UUID))},
        "not registered",
    ),
    ("sick", "registered", FAIL, {"registration": registered(healthy=False)}, "Xid"),
    ("memory", "registered", FAIL, {"registration": registered(memory_mib=48000)}, "deviceMemoryScaling"),
    (
        "out of the pool",
        "registered",
        FAIL,
        {"registration": replace(registration, handshake="Deleted_2026-07-07 10:20:00")},
        "out of its pool",
    ),
    ("whole cards", "allocatable", FAIL, {"allocatable": 1}, "another device plugin"),
    ("none", "allocatable", FAIL, {"allocatable": 0}, "no device plugin"),
    ("another split", "allocatable", FAIL, {"allocatable": 8}, "deviceSplitCount"),
]


@pytest.mark.parametrize(("claim", "status", "changes", "words"), parameters(CASES))
def test_a_claim_fails_for_its_own_reason(
    claim: str, status: Status, changes: dict[str, Any], words: str
) -> None:
    check(claim, status, changes, words)


def test_every_claim_has_a_case_that_fails_it() -> None:
    assert {case[1] for case in CASES if case[2] is FAIL} == IDS


def test_tolerances_are_bands() -> None:
    close = {
        "registration": registered(memory_mib=97000),
        "scheduler_images": ("rancher/kube-scheduler:v1.36.2-k3s1@sha256:ab",),
    }
    assert {verdict.status for verdict in verdicts(evidence(**close)).values()} == {Status.PASS}


def test_memory_scaling_is_part_of_what_is_expected() -> None:
    scaled = replace(registered(memory_mib=2 * 97887), memory_scaling=2)
    assert verdicts(evidence(registration=scaled))["registered"].status is Status.PASS
    assert (
        verdicts(evidence(registration=replace(registration, memory_scaling=2)))["registered"].status
        is Status.FAIL
    )
