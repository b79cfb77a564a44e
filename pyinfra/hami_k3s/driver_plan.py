"""What `driver_install` does on a host: decided from what preflight read. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from hami_k3s import releases
from hami_k3s.facts.host import HostState
from hami_k3s.preflight.driver import needs_closed
from hami_k3s.preflight.entry import Look
from hami_k3s.settings import Settings

# Codes of preflight that NVIDIA's packages (and perhaps a reboot) end.
MENDS = ("no-driver", "no-card", "nouveau", "module-other-kernel", "module-closed", "module-open", "driver-old",
         "driver-mismatch")  # fmt: skip
# NVIDIA signs Debian 13's repository with a newer key; (file beside the packages, fingerprint).
KEYS = {
    "debian13": ("8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
    "": ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC"),
}


@dataclass(frozen=True)
class Plan:
    """Either `refused` says why it cannot be done, or `packages` lists groups: of each, the first that apt knows.

    `repository`, `key`, `fingerprint`: NVIDIA's CUDA repository; empty where the system's own packages are used.
    """

    refused: str = ""
    packages: tuple[tuple[str, ...], ...] = ()
    repository: str = ""
    key: str = ""
    fingerprint: str = ""


def _platform(state: HostState) -> str:
    """`debian12`, `ubuntu2204`: as NVIDIA names its folders."""
    return f"{state.os_id}{(state.os_version or '').replace('.', '')}"


def plan(look: Look) -> Plan:
    """The packages for this host's card, system and firmware."""
    state, settings = look.state, look.settings
    branch = settings.driver_branch
    if not state.driver.packaged:
        return Plan("the driver was installed with NVIDIA's .run file; remove it first: nvidia-uninstall")
    if settings.source == "bundle":
        return Plan("a bundle holds no driver: install it by other means, or set source: internet")
    if needs_closed(look) and int(branch) > 580:
        return Plan(
            f"the card is older than Turing, and branch 580 is the last one for it, not {branch}: driver_branch"
        )
    if state.driver.secure_boot:
        return _signed(state, branch, needs_closed(look))
    return _nvidias(state, settings, needs_closed(look))


def _signed(state: HostState, branch: str, closed: bool) -> Plan:
    """Ubuntu's own packages: their modules are signed, and a headless machine can enrol no key of its own."""
    if state.os_id != "ubuntu":
        return Plan("Secure Boot is on, and only Ubuntu has signed modules: turn it off, or use Ubuntu")
    flavour = f"{branch}-server" if closed else f"{branch}-server-open"
    return Plan(
        packages=(
            (f"linux-modules-nvidia-{flavour}-{state.driver.kernel}",),
            (f"nvidia-headless-no-dkms-{flavour}",),
            (f"nvidia-utils-{branch}-server",),
        )
    )


def _nvidias(state: HostState, settings: Settings, closed: bool) -> Plan:
    """NVIDIA's CUDA repository. Up to branch 580 its Ubuntu packages carry the branch in their names."""
    platform, branch = _platform(state), settings.driver_branch
    arch = {"amd64": "x86_64", "arm64": "sbsa"}.get(releases.architecture(state.machine or "") or "", "")
    if arch == "sbsa" and state.os_id != "ubuntu":
        return Plan("NVIDIA has driver packages for arm64 for Ubuntu only")
    key, fingerprint = KEYS.get(platform, KEYS[""])
    name = "cuda-drivers" if closed else "nvidia-open"
    return Plan(
        packages=((f"{name}-{branch}", name),),
        repository=f"{settings.driver_repository_url}/{platform}/{arch}",
        key=key,
        fingerprint=settings.driver_key_fingerprint or fingerprint,
    )
