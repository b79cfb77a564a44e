"""The cards of a host, the driver and the container toolkit."""

from __future__ import annotations

from dataclasses import dataclass

from pyinfra.api import FactBase, QuoteString, StringCommand
from typing_extensions import override

from hami_k3s.facts import batch
from hami_k3s.isolation.evidence import Card
from hami_k3s.isolation.parse import QUERY, ParseError, parse_cards, parse_kernel_module


@dataclass(frozen=True)
class NvidiaState:
    """`cards` is None when nvidia-smi could not tell (see `message`); an empty tuple means that there is no card.

    `module` is the loaded kernel module's version, `module_kind` "open" or "proprietary"; None: not loaded.
    `pci` counts NVIDIA's display devices on the bus. `toolkit` is the version of nvidia-container-runtime.
    """

    cards: tuple[Card, ...] | None = None
    message: str = "unknown"
    module: str | None = None
    module_kind: str | None = None
    pci: int = 0
    toolkit: str | None = None


# Servers have hundreds of devices on their buses: one process for all.
NVIDIA_ON_BUS = "grep -lx 0x10de /sys/bus/pci/devices/*/vendor"
PROBES = {
    # A wedged card leaves nvidia-smi in the kernel for ever.
    "smi": f"timeout -k 2 30 {QUERY} 2>&1",
    "module": "cat /proc/driver/nvidia/version",
    "pci": f"{NVIDIA_ON_BUS} | while read -r f; do read -r c <${{f%vendor}}class; "
    "case $c in 0x0300*|0x0302*) echo x;; esac; done; true",
    "toolkit": "nvidia-container-runtime --version",
}


def state(answers: dict[str, batch.Answer]) -> NvidiaState:
    """NvidiaState from the answers to PROBES."""
    smi = answers.get("smi", batch.NOTHING)
    cards, message = None, smi.text.strip() or "no answer"
    if smi.status == 0:
        try:
            cards, message = parse_cards(smi.text), "ok"
        except ParseError as error:
            message = str(error)
    elif smi.status == 127:
        message = "command not found"
    elif smi.status in (124, 137):
        message = "no answer in 30 s"
    elif "No devices were found" in smi.text:
        cards = ()
    module = answers.get("module", batch.NOTHING).text
    version = (answers.get("toolkit", batch.NOTHING).value or "").split("\n")[0].split()
    return NvidiaState(
        cards=cards,
        message=message,
        module=parse_kernel_module(module),
        module_kind=("open" if "Open Kernel Module" in module else "proprietary") if module else None,
        pci=len(answers.get("pci", batch.NOTHING).text.split()),
        toolkit=version[-1] if version else None,
    )


class Nvidia(FactBase[NvidiaState]):
    """
    Returns the host's cards, driver and toolkit; unknown parts are None, on a bare host too.

    .. code:: python

        NvidiaState(cards=(Card(index=0, uuid="GPU-3c4a...", name="NVIDIA L4", memory_mib=23034, ...),), message="ok",
                    module="580.159.04", module_kind="open", pci=1, toolkit="1.19.1")
    """

    default = NvidiaState

    @override
    def command(self) -> StringCommand:
        return StringCommand(batch.script(PROBES))

    @override
    def process(self, output: list[str]) -> NvidiaState:
        return state(batch.parse(output))


class OnBus(FactBase[bool]):
    """
    Returns whether an NVIDIA card is on the PCI bus, whatever its driver says.

    .. code:: python

        True
    """

    default = bool

    @override
    def command(self) -> StringCommand:
        return StringCommand("sh -c", QuoteString(PROBES["pci"]), "2>/dev/null")

    @override
    def process(self, output: list[str]) -> bool:
        return bool(output)
