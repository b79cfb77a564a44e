"""The cards themselves, and what nvidia-smi says of them."""

from __future__ import annotations

from collections.abc import Iterator

from hami_k3s.facts.driver import Device, Mode, xids
from hami_k3s.preflight.entry import Found, Look, Unknown, entry

CARDS = ("0300", "0302")
NVSWITCH = "0680"
# NVIDIA's table of XID errors: those after which the card needs a reset, a reboot or a repair.
FATAL_XIDS = {
    46: "the card stopped processing",
    48: "double-bit ECC error",
    61: "internal microcontroller halt",
    62: "internal microcontroller halt",
    64: "ECC page retirement failed",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    95: "uncontained ECC error",
    119: "the GSP does not answer",
    120: "GSP error",
    140: "unrecovered ECC error",
}


def cards_on_bus(look: Look) -> tuple[Device, ...]:
    """The display devices of NVIDIA."""
    return tuple(one for one in look.state.driver.devices or () if one.kind in CARDS)


def modes(look: Look) -> Iterator[tuple[str, Mode]]:
    """(how a message calls the card, what nvidia-smi says of it)"""
    names = {str(card.index): f"card {card.index} ({card.name})" for card in look.state.nvidia.cards or ()}
    for mode in look.state.driver.modes or ():
        yield names.get(mode.index, f"card {mode.index}"), mode


@entry(
    "no-device",
    "blocks",
    "No NVIDIA device on the PCI bus",
    why="Without a card there is nothing to share.",
    fix="This machine shows no NVIDIA card: rent one with a card, or pass the card through to this VM",
)
def no_device(look: Look) -> Iterator[Found | Unknown]:
    state = look.state.nvidia
    if state.pci or state.cards is not None or state.module is not None:
        return
    if look.state.driver.devices is None:
        yield Unknown("/sys/bus/pci cannot be read")
    elif not cards_on_bus(look):
        yield Found("there is no NVIDIA display device among the PCI devices")


@entry(
    "mig",
    "blocks",
    "A card is in MIG mode",
    why="HAMi shares whole cards here; in MIG mode the card has no memory of its own to share.",
    fix="nvidia-smi -mig 0, then reboot if it says pending",
)
def mig(look: Look) -> Iterator[Found]:
    for one in look.state.nvidia.cards or ():
        if one.mig == "Enabled":
            yield Found(
                f"card {one.index} ({one.name}) is in MIG mode",
                f"HAMi shares whole cards here: nvidia-smi -i {one.index} -mig 0, then reboot if it says pending",
            )


@entry(
    "mig-pending",
    "blocks",
    "A card changes its MIG mode at the next reset",
    why="After the next reboot it would be another card than the one that was set up.",
    fix="Reboot, or take it back: nvidia-smi -mig 0",
)
def mig_pending(look: Look) -> Iterator[Found]:
    now = {str(card.index): card.mig for card in look.state.nvidia.cards or ()}
    for name, mode in modes(look):
        if mode.mig_pending in ("Enabled", "Disabled") and mode.mig_pending != now.get(mode.index):
            yield Found(f"{name}: MIG mode is {now.get(mode.index)}, {mode.mig_pending} is pending")


@entry(
    "compute-mode",
    "blocks",
    "The compute mode forbids sharing",
    why="In an exclusive mode a second pod's CUDA calls fail, whatever HAMi grants.",
    fix="nvidia-smi -c DEFAULT",
)
def compute_mode(look: Look) -> Iterator[Found]:
    for name, mode in modes(look):
        if mode.compute and mode.compute not in ("Default", "[N/A]"):
            yield Found(f"{name}: compute mode {mode.compute}")


@entry(
    "persistence-off",
    "warns",
    "Persistence is off",
    why="The driver lets the card go when its last user ends: the next start takes seconds and settings are lost.",
    fix="systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1 until the next reboot",
)
def persistence_off(look: Look) -> Iterator[Found]:
    off = [name for name, mode in modes(look) if mode.persistence == "Disabled"]
    if off:
        yield Found(f"persistence is off: {', '.join(off)}")


@entry(
    "ecc-errors",
    "warns",
    "A card has uncorrected memory errors",
    why="Work on that card may be killed or wrong; the row is only taken out of use at a reset.",
    fix="nvidia-smi -q -d ECC,ROW_REMAPPER; reset the card or reboot, and have it replaced if they come back",
)
def ecc_errors(look: Look) -> Iterator[Found]:
    for name, mode in modes(look):
        if mode.ecc_errors.isdecimal() and int(mode.ecc_errors):
            yield Found(f"{name}: {mode.ecc_errors} uncorrected errors since the driver was loaded")


def _counted(look: Look, fatal: bool) -> Iterator[Found]:
    last = {
        one.number: one
        for one in xids(look.state.driver.kernel_log or ())
        if (one.number in FATAL_XIDS) is fatal
    }
    for number, one in sorted(last.items()):
        meaning = f" ({FATAL_XIDS[number]})" if fatal else ""
        yield Found(f"Xid {number}{meaning} in the kernel log: {one.line[:120]}")


@entry(
    "xid-fatal",
    "blocks",
    "The kernel log has an error after which a card cannot be used",
    why="The card needs a reset, a reboot or a repair; the log is of this boot.",
    fix="Reboot; if it comes back, reseat or replace the card (dmesg | grep Xid)",
)
def xid_fatal(look: Look) -> Iterator[Found | Unknown]:
    if look.state.driver.kernel_log is None:
        yield Unknown("the kernel log cannot be read")
    yield from _counted(look, fatal=True)


@entry(
    "xid",
    "warns",
    "The kernel log has errors of a card",
    why="Mostly a program's fault (Xid 13, 31, 43), sometimes a card that begins to fail.",
    fix="dmesg | grep Xid; docs.nvidia.com/deploy/xid-errors says what each number means",
)
def xid(look: Look) -> Iterator[Found]:
    yield from _counted(look, fatal=False)
