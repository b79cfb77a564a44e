"""Disk, memory and the clock."""

from __future__ import annotations

from collections.abc import Iterator

from hami_k3s.preflight.entry import Found, Look, Unknown, entry

# k3s asks for 2 GB; a machine of that size shows a little less.
LEAST_MIB, ENOUGH_MIB = 1700, 3500
NVCC_GIB = 12  # the lab's devel image, unpacked beside its layers
INSTALLED_MIB = 2048  # with k3s and its images there


@entry(
    "disk",
    "blocks",
    "Too little room for what will be pulled",
    why="Images are unpacked under /var/lib/rancher; k3s evicts pods when 5 % are left.",
    fix="Free or add space, or set preflight_disk_gib if your images are smaller",
)
def disk(look: Look) -> Iterator[Found | Unknown]:
    systems = look.state.room.filesystems
    if systems is None:
        yield Unknown("df did not answer")
        return
    wanted = look.settings.preflight_disk_gib * 1024 + (
        NVCC_GIB * 1024 if look.settings.verify_probe == "nvcc" else 0
    )
    if look.state.k3s_active:
        wanted = min(wanted, INSTALLED_MIB)
    told = set()
    for path, one in systems.items():
        if one.free_mib < wanted and one.mount not in told:
            told.add(one.mount)
            yield Found(f"{one.free_mib} MiB are free on {one.mount} for {path}, {wanted} MiB are needed")


@entry(
    "disk-nearly-full",
    "warns",
    "The disk is more than 85 % full",
    why="kubelet then deletes images it does not use, whatever the number of free gigabytes, and pulls them again.",
    fix="Free space on it: journalctl --vacuum-size=200M; apt-get clean",
)
def disk_nearly_full(look: Look) -> Iterator[Found]:
    for one in {one.mount: one for one in (look.state.room.filesystems or {}).values()}.values():
        if one.used_percent > 85:
            yield Found(f"{one.mount} is {one.used_percent} % full")


@entry(
    "memory",
    "blocks",
    "Too little memory for k3s",
    why="A k3s server needs 2 GB before any workload; with less it is killed.",
    fix="Take a machine with 4 GB or more",
)
def memory(look: Look) -> Iterator[Found | Unknown]:
    total = look.state.room.memory_mib
    if total is None:
        yield Unknown("/proc/meminfo cannot be read")
    elif total < LEAST_MIB:
        yield Found(f"the machine has {total} MiB")


@entry(
    "memory-little",
    "warns",
    "Little memory",
    why="k3s and HAMi take about 1.5 GB; the rest is for your pods.",
    fix="A machine with 4 GB or more leaves room for pods",
)
def memory_little(look: Look) -> Iterator[Found]:
    total = look.state.room.memory_mib
    if total is not None and LEAST_MIB <= total < ENOUGH_MIB:
        yield Found(f"the machine has {total} MiB")


@entry(
    "clock",
    "blocks",
    "The clock is more than a minute off",
    why="Certificates made with a wrong clock are not valid later: k3s and every download over TLS fail.",
    fix="timedatectl set-ntp true, or set it once: date -s @SECONDS",
)
def clock(look: Look) -> Iterator[Found | Unknown]:
    off = look.state.room.clock_s
    if off is None:
        yield Unknown("the host did not say its time")
    elif abs(off) > 60:
        direction = "ahead of" if off > 0 else "behind"
        yield Found(f"the host's clock is {abs(off):.0f} s {direction} this machine's")
