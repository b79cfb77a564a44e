"""The driver below nvidia-smi: what is on the bus, which module is loaded or on disk, what the kernel complained about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hami_k3s.facts import batch
from hami_k3s.facts.machine import ROOT
from hami_k3s.facts.nvidia import NVIDIA_ON_BUS
from hami_k3s.isolation.parse import QUERY_FIELDS

# Every driver since branch 450 knows these; nvidia-smi refuses the whole query for one unknown field.
EXTRA = ("mig.mode.pending", "compute_mode", "persistence_mode", "ecc.errors.uncorrected.volatile.total")
QUERY = f"nvidia-smi --query-gpu={','.join((*QUERY_FIELDS, *EXTRA))} --format=csv"


@dataclass(frozen=True)
class Device:
    """One NVIDIA PCI function. `kind`: "0300" and "0302" are cards, "0680" NVSwitches. `id`: 0x2bb5 as a number."""

    slot: str
    kind: str
    id: int
    driver: str | None = None


@dataclass(frozen=True)
class Mode:
    """What nvidia-smi says of a card beside its identity; its own words, "" when it did not say."""

    index: str
    mig_pending: str = ""
    compute: str = ""
    persistence: str = ""
    ecc_errors: str = ""


@dataclass(frozen=True)
class Xid:
    """One XID of the kernel log: NVIDIA's number of an error, and the line."""

    number: int
    line: str


@dataclass(frozen=True)
class DriverState:
    """Unknown parts are None. `on_disk`: kernel -> path of its NVIDIA module. `disk_version`, `disk_kind`, `signer` are of
    the module for the running kernel. `library`: version of libnvidia-ml. `kernel_log`: the driver's own complaints."""

    devices: tuple[Device, ...] | None = None
    modes: tuple[Mode, ...] | None = None
    kernel: str | None = None
    on_disk: Mapping[str, str] | None = None
    disk_version: str | None = None
    disk_kind: str | None = None
    signer: str | None = None
    library: str | None = None
    nouveau: bool = False
    secure_boot: bool | None = None
    kernel_log: tuple[str, ...] | None = None
    fabric_unit: str | None = None
    fabric_version: str | None = None
    packaged: bool = False  # /usr/bin/nvidia-uninstall is not there: no .run installer was used
    reboot_pending: bool = False


_RUNNING = "/lib/modules/$(uname -r)"
_KO = r"\( -name 'nvidia.ko*' -o -name 'nvidia-current.ko*' -o -name 'nvidia-current-open.ko*' \)"
PROBES = {
    "pcidev": f"{NVIDIA_ON_BUS} | while read -r f; do d=${{f%/vendor}}; read -r c <$d/class; read -r i <$d/device; "
    'l=$(readlink $d/driver); echo "${d##*/} $c $i ${l##*/}"; done; test -d /sys/bus/pci',
    "kernel": "uname -r",
    "ko": f"find /lib/modules {_KO}",
    "modinfo": f'PATH=$PATH:/usr/sbin:/sbin; f=$(find {_RUNNING} {_KO} | head -n 1); [ -n "$f" ] || exit 3; '
    'for n in version license signer; do echo "$n $(modinfo -F $n $f)"; done; command -v modinfo >/dev/null',
    "library": "ls -d /usr/lib/*-linux-gnu/libnvidia-ml.so.*.* /usr/lib64/libnvidia-ml.so.*.* /usr/lib/libnvidia-ml.so.*.*",
    "nouveau": "test -d /sys/module/nouveau && echo yes",
    # Four bytes of attributes come first.
    "secureboot": "test -d /sys/firmware/efi || { echo 0; exit; }; for f in /sys/firmware/efi/efivars/SecureBoot-*; do "
    "od -An -tu1 -j4 -N1 $f; done",
    "dmesg": f"l=$({ROOT} dmesg) || exit 3; printf '%s\\n' \"$l\" | grep -E 'NVRM|nvidia: .*(signature|key)' | tail -n 40; true",
    "fabric": "systemctl show -p LoadState -p ActiveState --value nvidia-fabricmanager.service",
    "fabric_version": "nv-fabricmanager --version",
    "uninstall": "ls /usr/bin/nvidia-uninstall",
    "reboot": "ls /var/run/reboot-required",
}


def _devices(answer: batch.Answer) -> tuple[Device, ...] | None:
    if answer.status:
        return None
    found = []
    for line in answer.text.splitlines():
        words = [*line.split(), ""][:4]
        if (
            len(words) == 4
            and re.fullmatch(r"0x[0-9a-f]{6}", words[1])
            and re.fullmatch(r"0x[0-9a-f]{4}", words[2])
        ):
            found.append(Device(words[0], words[1][2:6], int(words[2], 16), words[3] or None))
    return tuple(found)


def _modes(text: str) -> tuple[Mode, ...] | None:
    """From the CSV of QUERY, by its header's names."""
    lines = [line.split(", ") for line in text.splitlines() if line.strip()]
    start = next((n for n, row in enumerate(lines) if "index" in row and "uuid" in row), None)
    if start is None:
        return None
    names = [name.split(" [")[0] for name in lines[start]]
    rows = [dict(zip(names, row, strict=False)) for row in lines[start + 1 :]]
    return tuple(Mode(row.get("index", "?"), *(row.get(name, "").strip() for name in EXTRA)) for row in rows)


def xids(log: tuple[str, ...]) -> tuple[Xid, ...]:
    """`NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=x, GPU has fallen off the bus.` (NVIDIA's "XID Errors" page)."""
    found = []
    for line in log:
        match = re.search(r"NVRM: Xid \([^)]*\): (\d+)", line)
        if match:
            found.append(Xid(int(match.group(1)), line[line.index("NVRM") :]))
    return tuple(found)


def state(answers: Mapping[str, batch.Answer]) -> DriverState:
    """DriverState from the answers to PROBES and nvidia's "smi"."""

    def answer(name: str) -> batch.Answer:
        return answers.get(name, batch.NOTHING)

    files: dict[str, str] = {}
    for path in answer("ko").text.split():
        parts = path.split("/")
        if len(parts) > 3:
            files.setdefault(parts[3], path)
    info = dict(line.partition(" ")[::2] for line in answer("modinfo").text.splitlines())
    libraries = re.findall(r"libnvidia-ml\.so\.(\d{3,}[\d.]*\d)$", answer("library").text, re.MULTILINE)
    boot = answer("secureboot")
    fabric = answer("fabric").text.split()
    version = re.search(r"\d{3,}\.\d+[\d.]*", answer("fabric_version").text)
    known = answer("modinfo").status == 0
    return DriverState(
        devices=_devices(answer("pcidev")),
        modes=_modes(answer("smi").text) if answer("smi").status == 0 else None,
        kernel=answer("kernel").value,
        on_disk=files if answer("ko").status != 127 else None,
        disk_version=(info.get("version") or None) if known else None,
        disk_kind=("proprietary" if info["license"] == "NVIDIA" else "open")
        if known and info.get("license")
        else None,
        signer=info.get("signer", "") if known else None,
        library=libraries[0] if libraries else None,
        nouveau=answer("nouveau").value == "yes",
        secure_boot=boot.text.split()[:1] == ["1"] if boot.status == 0 and boot.text.split() else None,
        kernel_log=tuple(answer("dmesg").text.splitlines()) if answer("dmesg").status == 0 else None,
        fabric_unit=("absent" if fabric[0] == "not-found" else fabric[1]) if len(fabric) == 2 else None,
        fabric_version=version.group(0).rstrip(".") if version else None,
        packaged=answer("uninstall").status != 0,
        reboot_pending=answer("reboot").status == 0,
    )
