"""The host's driver works and no card is in MIG mode."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed, warned

ID = "driver"
EXPECTED = "nvidia-smi lists the cards, MIG off, one driver version"


def decide(evidence: Evidence) -> Verdict:
    """Cards listed by nvidia-smi, none in MIG mode, library and kernel module of one version."""
    cards = evidence.measured("cards", evidence.cards)
    if not cards:
        return failed(
            ID,
            EXPECTED,
            "no card",
            "nvidia-smi answers but lists no card",
            "run `lspci | grep -i nvidia` and `dmesg | grep NVRM`; Blackwell cards need the open kernel module",
        )
    names = ", ".join(f"{card.name} ({card.memory_mib} MiB)" for card in cards)
    mig = [card for card in cards if card.mig == "Enabled"]
    if mig:
        return failed(
            ID,
            EXPECTED,
            f"{names}; MIG is on for card {', '.join(str(card.index) for card in mig)}",
            "HAMi's memory slices are for whole cards",
            f"turn MIG off: nvidia-smi -i {mig[0].index} -mig 0 (needs an idle card, sometimes a reboot)",
        )
    versions = sorted({card.driver for card in cards if card.driver})
    observed = f"{names}; driver {', '.join(versions) or 'of unknown version'}"
    if evidence.kernel_module is None:
        why = evidence.errors.get("kernel_module") or "/proc/driver/nvidia/version could not be read"
        return warned(ID, EXPECTED, observed, f"{why}: library and kernel module could not be compared")
    if versions != [evidence.kernel_module]:
        return failed(
            ID,
            EXPECTED,
            f"{observed}; kernel module {evidence.kernel_module}",
            "the driver's libraries and the loaded kernel module differ, as after an upgrade without a reboot",
            "reboot the host, and hold the driver's packages back from unattended upgrades",
        )
    return passed(ID, EXPECTED, observed)


PAGE = """\
- Measured: `nvidia-smi --query-gpu`, and the version of the loaded kernel module in `/proc/driver/nvidia/version`.
- Fails: no card is listed; a card is in MIG mode; libraries and kernel module have different versions.
- Warns: the module's version cannot be read.
- Do: `lspci | grep -i nvidia` and `dmesg | grep NVRM`; `nvidia-smi -i 0 -mig 0`; reboot after a driver upgrade.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="The host's driver works and no card is in MIG mode.",
    proof="nvidia-smi --query-gpu, version of the loaded kernel module",
    step="1",
    decide=decide,
    page=PAGE,
)
