"""Why a host cannot be a GPU node: each problem for its own reason, with a fix, and all of them at once."""

from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.facts.driver import DriverState
from hami_k3s.facts.host import HostState
from hami_k3s.facts.nvidia import NvidiaState
from hami_k3s.preflight import SUPPORTED, problems
from hami_k3s.settings import Settings
from tests.recorded.lab import CARD

GPU = NvidiaState(cards=(CARD,), message="ok", module="610.43.02", module_kind="open", pci=1)
FINE = HostState(
    user="ubuntu",
    root=True,
    systemd=True,
    os_id="ubuntu",
    os_version="24.04",
    machine="x86_64",
    can_mount=True,
    cgroup2=True,
    nvidia=GPU,
)
OPERATOR = "CRD customresourcedefinition.apiextensions.k8s.io/clusterpolicies.nvidia.com"
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # code, what is changed, what was seen, how to fix it
    ("not-root", {"root": False}, "user ubuntu is not root", "NOPASSWD"),
    ("no-systemd", {"systemd": False}, "process 1 is not systemd", "whole machine or VM"),
    (
        "os",
        {"os_id": "ubuntu", "os_version": "20.04"},
        "the system is ubuntu 20.04",
        "Ubuntu 22.04 and 24.04",
    ),
    ("os", {"os_id": "debian", "os_version": None}, "the system is debian", "Debian 12 and 13"),
    ("os", {"os_id": None, "os_version": None}, "the system is unknown", "Supported"),
    ("architecture", {"machine": "riscv64"}, "the machine is riscv64", "x86_64, aarch64"),
    ("architecture", {"machine": None}, "the machine is unknown", "x86_64, aarch64"),
    (
        "container",
        {"can_mount": False, "container": "docker"},
        "root inside a docker container may not mount",
        "VM",
    ),
    ("container", {"can_mount": False}, "root may not mount", "rent a VM"),
    ("cgroup-v1", {"cgroup2": False}, "cgroup v1", "systemd.unified_cgroup_hierarchy=1"),
    (
        "mig",
        {"nvidia": replace(GPU, cards=(replace(CARD, index=3, mig="Enabled"),))},
        "card 3 (NVIDIA RTX PRO 6000 Blackwell Server Edition) is in MIG mode",
        "nvidia-smi -i 3 -mig 0",
    ),
    (
        "no-card",
        {
            "nvidia": NvidiaState(
                cards=(), message="No devices were found", module="580.1", module_kind="proprietary", pci=1
            )
        },
        "No devices were found (1 NVIDIA display devices on the PCI bus, module 580.1 proprietary)",
        "nvidia-open",
    ),
    ("no-card", {"nvidia": NvidiaState(cards=(), pci=0)}, "module not loaded)", "dmesg | grep NVRM"),
    (
        "no-driver",
        {"nvidia": NvidiaState(message="command not found", pci=1)},
        "command not found",
        "Install the driver",
    ),
    (
        "no-device",
        {"nvidia": NvidiaState(message="command not found"), "driver": DriverState(devices=())},
        "no NVIDIA display device",
        "shows no NVIDIA card",
    ),
    (
        "no-driver",
        {"nvidia": NvidiaState(message="no answer in 30 s", module="580.1")},
        "no answer in 30 s",
        "driver",
    ),
    (
        "second-device-plugin",
        {"providers": (OPERATOR, "manifest /x")},
        f"{OPERATOR}; manifest /x",
        "HAMi must be alone",
    ),
    (
        "operator-leftover",
        {"operator_toolkit": True},
        "left by a GPU Operator",
        "rm -r /usr/local/nvidia/toolkit",
    ),
    ("other-kubelet", {"kubelets": ("kubelet", "microk8s")}, "kubelet, microk8s", "fresh machine"),
    ("k3s-newer", {"k3s": "v1.37.0+k3s1"}, "k3s v1.37.0+k3s1 is installed", "k3s_version: v1.37.0+k3s1"),
]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("system", [(name, version) for name in SUPPORTED for version in SUPPORTED[name]])
def test_a_host_that_can(system: tuple[str, str], machine: str) -> None:
    host = replace(FINE, os_id=system[0], os_version=system[1], machine=machine)
    assert problems(host, Settings()) == []


@pytest.mark.parametrize("k3s", [None, "v1.36.2+k3s1", "v1.35.9+k3s2", "v1.36.2+k3s0"])
def test_a_host_that_has_k3s_already(k3s: str | None) -> None:
    found = problems(replace(FINE, k3s=k3s), Settings())
    assert [one.code for one in found] == (["k3s-older"] if k3s not in (None, "v1.36.2+k3s1") else [])
    assert all(one.severity == "warns" for one in found)


@pytest.mark.parametrize(
    ("code", "changes", "seen", "fix"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)]
)
def test_one_problem(code: str, changes: dict[str, Any], seen: str, fix: str) -> None:
    (found,) = problems(replace(FINE, **changes), Settings())
    assert found.code == code
    assert seen in found.seen
    assert fix in found.fix
    assert str(found) == f"{code}: {found.seen}. {found.fix}"


def test_cgroup_v1_is_enough_for_an_older_k3s() -> None:
    assert problems(replace(FINE, cgroup2=False), Settings(k3s_version="v1.34.1+k3s1")) == []


def test_mig_that_the_card_does_not_have() -> None:
    assert problems(replace(FINE, nvidia=replace(GPU, cards=(replace(CARD, mig="[N/A]"),))), Settings()) == []


def test_everything_at_once() -> None:
    host = HostState(
        user="ubuntu", providers=("manifest /x",), kubelets=("k0s",), operator_toolkit=True, k3s="v9.0.0+k3s1"
    )
    codes = [problem.code for problem in problems(host, Settings())]
    assert codes == [
        "not-root",
        "no-systemd",
        "os",
        "architecture",
        "cgroup-v1",
        "no-driver",
        "second-device-plugin",
        "operator-leftover",
        "other-kubelet",
        "k3s-newer",
    ]


def test_several_cards_in_mig_mode_are_each_named() -> None:
    cards = tuple(replace(CARD, index=index, mig="Enabled") for index in (0, 1))
    found = problems(replace(FINE, nvidia=replace(GPU, cards=cards)), Settings())
    assert [problem.code for problem in found] == ["mig", "mig"]
