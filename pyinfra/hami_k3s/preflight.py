"""Why a host cannot be a GPU node: every problem at once, each with what was seen and how to fix it. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from hami_k3s import releases
from hami_k3s.facts.host import HostState
from hami_k3s.settings import Settings

SUPPORTED = {"ubuntu": ("22.04", "24.04"), "debian": ("12", "13")}


@dataclass(frozen=True)
class Problem:
    """`code` is stable, for programs; `seen` is what is wrong on this host; `fix` a command or a setting."""

    code: str
    seen: str
    fix: str

    def __str__(self) -> str:
        return f"{self.code}: {self.seen}. {self.fix}"


def problems(state: HostState, settings: Settings) -> list[Problem]:
    """Every reason why this host cannot be a GPU node; empty when it can."""
    return [*_host(state, settings), *_driver(state), *_others(state, settings)]


def _host(state: HostState, settings: Settings) -> list[Problem]:
    found = []
    if not state.root:
        found.append(
            Problem(
                "not-root",
                f"user {state.user} is not root and has no sudo without a password",
                f"Connect as root, or allow it: echo '{state.user} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/90-hami-k3s",
            )
        )
    if not state.systemd:
        found.append(
            Problem(
                "no-systemd",
                "process 1 is not systemd",
                "k3s runs as a systemd service: use a whole machine or VM",
            )
        )
    versions = SUPPORTED.get(state.os_id or "")
    if versions is None or state.os_version not in versions:
        found.append(
            Problem(
                "os",
                f"the system is {state.os_id or 'unknown'} {state.os_version or ''}".rstrip(),
                "Supported: Ubuntu 22.04 and 24.04, Debian 12 and 13",
            )
        )
    if releases.architecture(state.machine or "") is None:
        found.append(
            Problem(
                "architecture", f"the machine is {state.machine or 'unknown'}", "Supported: x86_64, aarch64"
            )
        )
    if state.root and not state.can_mount:
        inside = f"inside a {state.container} container " if state.container else ""
        found.append(
            Problem(
                "container",
                f"root {inside}may not mount: the container runtime cannot be configured from here",
                "A marketplace container is not enough: rent a VM or a whole machine",
            )
        )
    if not state.cgroup2 and releases.numbers(settings.k3s_version) >= (1, 35):
        found.append(
            Problem(
                "cgroup-v1",
                "the host uses cgroup v1, which kubelet 1.35 and later refuses",
                "Boot with systemd.unified_cgroup_hierarchy=1",
            )
        )
    return found


def _driver(state: HostState) -> list[Problem]:
    card = state.nvidia
    if card.cards:
        return [
            Problem(
                "mig",
                f"card {one.index} ({one.name}) is in MIG mode",
                f"HAMi shares whole cards here: nvidia-smi -i {one.index} -mig 0, then reboot if it says pending",
            )
            for one in card.cards
            if one.mig == "Enabled"
        ]
    if card.cards == ():
        return [
            Problem(
                "no-card",
                f"nvidia-smi: No devices were found ({card.pci} NVIDIA display devices on the PCI bus, "
                f"module {card.module or 'not loaded'} {card.module_kind or ''})".replace(" )", ")"),
                "Blackwell and newer need the open kernel module (apt-get install nvidia-open); "
                "`dmesg | grep NVRM` says more",
            )
        ]
    return [
        Problem(
            "no-driver",
            f"nvidia-smi: {card.message.splitlines()[0]} ({card.pci} NVIDIA display devices on the PCI bus, kernel module "
            f"{card.module or 'not loaded'})",
            "Install the driver first (docs.nvidia.com/datacenter/tesla/driver-installation-guide), then run nvidia-smi"
            if card.pci or card.module
            else "This machine shows no NVIDIA card: rent one with a card, or pass the card through to this VM",
        )
    ]


def _others(state: HostState, settings: Settings) -> list[Problem]:
    found = []
    if state.providers:
        found.append(
            Problem(
                "second-device-plugin",
                f"something else serves nvidia.com/gpu: {'; '.join(state.providers)}",
                "HAMi must be alone: remove NVIDIA's device plugin or the GPU Operator, manifests in "
                "/var/lib/rancher/k3s/server/manifests included",
            )
        )
    if state.operator_toolkit:
        found.append(
            Problem(
                "operator-leftover",
                "/usr/local/nvidia/toolkit is there, left by a GPU Operator; k3s would take its runtime first",
                "Remove it: rm -r /usr/local/nvidia/toolkit",
            )
        )
    if state.kubelets:
        found.append(
            Problem(
                "other-kubelet",
                f"another Kubernetes runs here: {', '.join(state.kubelets)}",
                "Remove it, or take a fresh machine",
            )
        )
    if state.k3s and releases.numbers(state.k3s) > releases.numbers(settings.k3s_version):
        found.append(
            Problem(
                "k3s-newer",
                f"k3s {state.k3s} is installed, newer than {settings.k3s_version}; k3s cannot go back",
                f"Set k3s_version: {state.k3s}",
            )
        )
    return found
