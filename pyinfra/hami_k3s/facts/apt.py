"""apt and dpkg before anything is installed. Nothing here writes: apt-cache and apt-mark would, in /var/cache/apt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hami_k3s.facts import batch

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock")


@dataclass(frozen=True)
class AptState:
    """Unknown parts are None. `errors`: what apt says of its own sources. `holders`: "NAME (PID)" of the processes that
    hold a lock. `interrupted`: dpkg was ended in the middle. `half`: packages that are unpacked and not configured.
    `busy`: first-boot or automatic work that will want apt. `held`: package -> version of what is on hold.
    `nvidia`: driver packages that are installed. `upgrades`: `apt-config dump` lines of unattended-upgrades."""

    errors: tuple[str, ...] | None = None
    holders: tuple[str, ...] | None = None
    interrupted: bool | None = None
    half: tuple[str, ...] | None = None
    busy: tuple[str, ...] = ()
    held: Mapping[str, str] | None = None
    nvidia: Mapping[str, str] | None = None
    upgrades: tuple[str, ...] | None = None


# The locks' inodes, each process in /proc/locks that has one, and its name.
_HOLDERS = (
    f"i=' '; for f in {' '.join(LOCKS)}; do [ ! -e $f ] || i=\"$i$(stat -c %i $f) \"; done; "
    'while read -r n kind mode what pid where rest; do case "$i" in *" ${where##*:} "*) '
    'echo "$(cat /proc/$pid/comm) $pid";; esac; done </proc/locks; test -r /proc/locks'
)
PROBES = {
    # Parses every source; a conflict or a broken file is an error on stderr. Without the options it would write a cache.
    "apt_errors": "command -v apt-get >/dev/null || exit 127; "
    "LC_ALL=C apt-get -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= indextargets --format x 2>&1 >/dev/null; true",
    "apt_locks": _HOLDERS,
    "dpkg_updates": "ls /var/lib/dpkg/updates",
    # cloud-init has begun and has no result; the services apt starts by itself; first-boot package work
    "busy": "test -e /run/cloud-init/status.json && test ! -e /run/cloud-init/result.json && echo cloud-init; "
    "systemctl show -p Id -p ActiveState apt-daily.service apt-daily-upgrade.service unattended-upgrades-run.service "
    "snapd.seeded.service | while IFS== read -r k v; do "
    'case "$k=$v" in Id=*) u=${v%.service};; ActiveState=activating) echo $u;; esac; done; '
    "grep -qsaE 'bin/unattended-upgrade.?$' /proc/[0-9]*/cmdline && echo unattended-upgrade; true",
    "packages": "dpkg-query -W -f '${db:Status-Want} ${db:Status-Status} ${Package} ${Version}\\n' | "
    "grep -E '^hold |half|unpacked|triggers-awaited|nvidia|cuda-drivers|libcuda'; dpkg-query -W dpkg >/dev/null",
    "apt_config": "command -v apt-config >/dev/null || exit 127; apt-config dump | "
    "grep -E '^(Unattended-Upgrade::|APT::Periodic::Unattended-Upgrade|Acquire::https?::Proxy )'; true",
}
# Packages that carry the driver itself; the toolkit's are pinned by this project.
DRIVER = ("nvidia-driver", "nvidia-dkms", "nvidia-open", "nvidia-kernel", "nvidia-headless", "cuda-drivers",
          "libnvidia-compute", "libcuda1", "libnvidia-ml1", "nvidia-utils", "linux-modules-nvidia")  # fmt: skip


def state(answers: Mapping[str, batch.Answer]) -> AptState:
    """AptState from the answers to PROBES."""

    def answer(name: str) -> batch.Answer:
        return answers.get(name, batch.NOTHING)

    rows = [line.split() for line in answer("packages").text.splitlines()]
    rows = [[*row, ""][:4] for row in rows if len(row) >= 3]
    known = answer("packages").status == 0
    locks = [line.split() for line in answer("apt_locks").text.splitlines()]
    updates = answer("dpkg_updates")
    return AptState(
        errors=tuple(line for line in answer("apt_errors").text.splitlines() if line.startswith("E:"))
        if answer("apt_errors").status == 0
        else None,
        holders=tuple(
            dict.fromkeys(f"{' '.join(row[:-1])} (process {row[-1]})" for row in locks if len(row) > 1)
        )
        if answer("apt_locks").status == 0
        else None,
        interrupted=bool(updates.text.split()) if updates.status == 0 else None,
        half=tuple(row[2] for row in rows if row[1] in ("half-installed", "half-configured", "unpacked"))
        if known
        else None,
        busy=tuple(dict.fromkeys(answer("busy").text.split())),
        held={row[2]: row[3] for row in rows if row[0] == "hold"} if known else None,
        nvidia={row[2]: row[3] for row in rows if row[1] == "installed" and row[2].startswith(DRIVER)}
        if known
        else None,
        upgrades=tuple(line for line in answer("apt_config").text.splitlines() if "Upgrade" in line)
        if answer("apt_config").status == 0
        else None,
    )
