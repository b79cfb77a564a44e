"""The driver: is it there, is it the right one, does it fit its library, its kernel and the card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hami_k3s import releases
from hami_k3s.preflight.card import NVSWITCH, cards_on_bus
from hami_k3s.preflight.entry import Found, Look, Unknown, entry

# PCI device numbers grow with the generations: Turing starts at 0x1e00, Blackwell at 0x2900.
TURING, BLACKWELL = 0x1E00, 0x2900
OPEN_ONLY_FROM = (10, 0)  # compute capability of Blackwell
OPEN_FROM = (7, 5)  # Turing
# Driver branch that a CUDA release's images need at least (NVIDIA's CUDA compatibility table).
CUDA_NEEDS = {11: 450, 12: 525, 13: 580}
HAMI_NEEDS = 440
BLACKWELL_NEEDS = 570
LOG_OPEN = re.compile(r"requires? use of the NVIDIA open kernel modules|not supported by the .*proprietary")
LOG_SIGNATURE = re.compile(r"signature|required key|Key was rejected", re.IGNORECASE)


def _capability(look: Look) -> tuple[int, ...] | None:
    """The newest card's compute capability."""
    known = [releases.numbers(card.compute_cap) for card in look.state.nvidia.cards or () if card.compute_cap]
    return max(known, default=None)


def needs_open(look: Look) -> bool:
    """Does a card of this host work with the open modules only?"""
    return (_capability(look) or (0,)) >= OPEN_ONLY_FROM or any(
        one.id >= BLACKWELL for one in cards_on_bus(look)
    )


def needs_closed(look: Look) -> bool:
    """Is a card of this host too old for the open modules?"""
    known = [releases.numbers(card.compute_cap) for card in look.state.nvidia.cards or () if card.compute_cap]
    return any(one < OPEN_FROM for one in known) or any(one.id < TURING for one in cards_on_bus(look))


def _mismatch(look: Look) -> bool:
    state = look.state
    if "Driver/library version mismatch" in state.nvidia.message:
        return True
    loaded, library = state.nvidia.module, state.driver.library
    return bool(loaded and library and loaded != library and not state.nvidia.cards)


def _other_kernel(look: Look) -> list[str]:
    """Kernels that have a module, when the running one has none and none is loaded."""
    state = look.state.driver
    if look.state.nvidia.module or not state.kernel or not state.on_disk or state.kernel in state.on_disk:
        return []
    return sorted(state.on_disk)


def _bound_to_nouveau(look: Look) -> bool:
    devices = cards_on_bus(look)
    return any(one.driver == "nouveau" for one in devices) or (
        look.state.driver.nouveau and not look.state.nvidia.module
    )


def _unsigned(look: Look) -> bool:
    state = look.state.driver
    if not state.secure_boot or look.state.nvidia.module:
        return False
    refused = any(LOG_SIGNATURE.search(line) for line in state.kernel_log or ())
    return refused or state.signer == ""


def _wrong_flavour(look: Look) -> bool:
    said = any(LOG_OPEN.search(line) for line in look.state.driver.kernel_log or ())
    return look.state.nvidia.module_kind == "proprietary" and (needs_open(look) or said)


def _too_old_for_open(look: Look) -> bool:
    return look.state.nvidia.module_kind == "open" and needs_closed(look)


def explained(look: Look) -> bool:
    """Is there a more exact reason than "nvidia-smi does not answer"?"""
    return (
        _mismatch(look)
        or bool(_other_kernel(look))
        or _bound_to_nouveau(look)
        or _unsigned(look)
        or _wrong_flavour(look)
    )


@entry(
    "no-driver",
    "blocks",
    "The card's driver is missing or does not answer",
    why="NVIDIA's kernel module and nvidia-smi are the ground everything else stands on.",
    fix="Install the driver: driver_install: true, or by hand "
    "(docs.nvidia.com/datacenter/tesla/driver-installation-guide), then run nvidia-smi",
)
def no_driver(look: Look) -> Iterator[Found]:
    card = look.state.nvidia
    known = look.state.driver.devices is not None
    if card.cards is not None or explained(look) or (known and not card.pci and card.module is None):
        return
    bound = ", ".join(
        sorted({one.driver for one in cards_on_bus(look) if one.driver not in (None, "nvidia")})
    )
    yield Found(
        f"nvidia-smi: {card.message.splitlines()[0]} ({card.pci} NVIDIA display devices on the PCI bus"
        + (f", bound to {bound}" if bound else "")
        + f", kernel module {card.module or 'not loaded'})"
    )


@entry(
    "no-card",
    "blocks",
    "The driver finds no card it can use",
    why="The module is loaded and could not start the card.",
    fix="Blackwell and newer need the open kernel module (apt-get install nvidia-open); `dmesg | grep NVRM` says more",
)
def no_card(look: Look) -> Iterator[Found]:
    card = look.state.nvidia
    if card.cards == () and not _wrong_flavour(look) and not _too_old_for_open(look):
        kind = f" {card.module_kind}" if card.module_kind else ""
        log = next(
            (line for line in look.state.driver.kernel_log or () if "RmInitAdapter failed" in line), ""
        )
        more = f"; the kernel says: {log[log.index('NVRM') :][:80]}" if "NVRM" in log else ""
        yield Found(
            f"nvidia-smi: No devices were found ({card.pci} NVIDIA display devices on the PCI bus, "
            f"module {card.module or 'not loaded'}{kind}){more}"
        )


@entry(
    "nouveau",
    "blocks",
    "The card is driven by nouveau",
    why="NVIDIA's module cannot take a card that nouveau holds.",
    fix="printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' >/etc/modprobe.d/blacklist-nouveau.conf && "
    "update-initramfs -u && reboot",
)
def nouveau(look: Look) -> Iterator[Found]:
    if _bound_to_nouveau(look):
        slots = ", ".join(one.slot for one in cards_on_bus(look) if one.driver == "nouveau")
        yield Found(f"nouveau drives {slots}" if slots else "the module nouveau is loaded, nvidia is not")


@entry(
    "module-other-kernel",
    "blocks",
    "The driver's module was built for another kernel",
    why="After a kernel upgrade (or before the reboot into it) the running kernel has no module to load.",
    fix="Reboot into that kernel, or build it: apt-get install linux-headers-$(uname -r) && dkms autoinstall",
)
def module_other_kernel(look: Look) -> Iterator[Found]:
    others = _other_kernel(look)
    if others:
        yield Found(
            f"the running kernel is {look.state.driver.kernel}, the module is there for {', '.join(others)}"
        )


@entry(
    "driver-mismatch",
    "blocks",
    "The loaded module and the library are of different versions",
    why="The driver's packages were upgraded and the old module is still loaded: nothing can open the card.",
    fix="Reboot: the module on disk is then loaded",
)
def driver_mismatch(look: Look) -> Iterator[Found]:
    if _mismatch(look):
        state = look.state.driver
        fits = "a reboot fixes it" if state.disk_version and state.disk_version == state.library else ""
        if state.disk_version and state.library and state.disk_version != state.library:
            fits = f"the module on disk is {state.disk_version}: install packages of one version, then reboot"
        yield Found(
            f"module {look.state.nvidia.module or 'unknown'} is loaded, the library is {state.library or 'unknown'}"
            + (f" ({fits})" if fits else "")
        )


@entry(
    "driver-old",
    "blocks",
    "The driver is too old",
    why="The card, HAMi-core or the CUDA release of the probe's image needs a newer branch.",
    fix="Install a newer branch: driver_install: true with driver_branch, or apt",
)
def driver_old(look: Look) -> Iterator[Found]:
    version = look.state.nvidia.module
    if version is None:
        return
    branch = releases.numbers(version)[0]
    needs = {HAMI_NEEDS: "HAMi-core"}
    if needs_open(look):
        needs[BLACKWELL_NEEDS] = "this card"
    match = re.search(r"cuda:(\d+)\.", look.settings.verify_nvcc_image)
    if look.settings.verify_probe == "nvcc" and match and int(match.group(1)) in CUDA_NEEDS:
        needs[CUDA_NEEDS[int(match.group(1))]] = f"CUDA {match.group(1)} of verify_nvcc_image"
    most = max(needs)
    if branch < most:
        yield Found(f"driver {version}, {needs[most]} needs {most} or later")


@entry(
    "module-closed",
    "blocks",
    "This card needs the open kernel modules",
    why="Blackwell and newer work with the open modules only: with the closed ones nvidia-smi finds no device.",
    fix="apt-get install nvidia-open (NVIDIA's repository) or nvidia-driver-BRANCH-server-open (Ubuntu's), then reboot",
)
def module_closed(look: Look) -> Iterator[Found]:
    if _wrong_flavour(look):
        names = ", ".join(sorted({f"{one.slot} (10de:{one.id:04x})" for one in cards_on_bus(look)}))
        yield Found(f"the closed module {look.state.nvidia.module} is loaded for {names or 'the card'}")


@entry(
    "module-open",
    "blocks",
    "This card is too old for the open kernel modules",
    why="Maxwell, Pascal and Volta work with the closed modules only, up to branch 580.",
    fix="apt-get install cuda-drivers-580, then reboot",
)
def module_open(look: Look) -> Iterator[Found]:
    if _too_old_for_open(look):
        names = ", ".join(
            sorted({f"{one.slot} (10de:{one.id:04x})" for one in cards_on_bus(look) if one.id < TURING})
        )
        yield Found(
            f"the open module {look.state.nvidia.module} is loaded, the card is {names or 'older than Turing'}"
        )


@entry(
    "secure-boot",
    "blocks",
    "Secure Boot is on and the module is not signed",
    why="The kernel refuses the module, and a headless machine cannot enrol a key.",
    fix="Use Ubuntu's signed packages (linux-modules-nvidia-BRANCH-server-open-$(uname -r)), or turn Secure Boot off",
)
def secure_boot(look: Look) -> Iterator[Found | Unknown]:
    if look.state.driver.secure_boot is None:
        yield Unknown("the firmware's variables cannot be read")
    elif _unsigned(look):
        yield Found(
            "Secure Boot is on, and the NVIDIA module on disk is not loaded and has no accepted signature"
        )


@entry(
    "fabric-manager",
    "blocks",
    "Fabric Manager is missing or of another version",
    why="On NVSwitch machines nvidia-smi looks fine without it and CUDA fails with 802 (system not yet initialized).",
    fix="apt-get install nvidia-fabricmanager=DRIVER-1 && systemctl enable --now nvidia-fabricmanager",
)
def fabric_manager(look: Look) -> Iterator[Found]:
    state = look.state.driver
    switches = [one for one in state.devices or () if one.kind == NVSWITCH]
    if not switches:
        return
    if state.fabric_unit != "active":
        yield Found(
            f"{len(switches)} NVSwitches, and nvidia-fabricmanager.service is {state.fabric_unit or 'unknown'}"
        )
    elif (
        state.fabric_version and look.state.nvidia.module and state.fabric_version != look.state.nvidia.module
    ):
        yield Found(
            f"Fabric Manager is {state.fabric_version}, the driver {look.state.nvidia.module}: they must be equal"
        )
