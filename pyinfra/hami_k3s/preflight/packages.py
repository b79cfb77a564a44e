"""apt and dpkg."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hami_k3s.facts.toolkit import PACKAGES
from hami_k3s.preflight.entry import Found, Look, Unknown, entry

SITE = "libnvidia-container"


def _errors(look: Look, ours: bool) -> list[str]:
    """apt's errors that concern the toolkit's repository, or the others."""
    url = look.settings.toolkit_repository_url.partition("://")[2]
    errors = [line for line in look.state.apt.errors or () if "sources could not be read" not in line]
    return [line for line in errors if (SITE in line or url in line) is ours]


@entry(
    "apt-sources",
    "blocks",
    "apt's sources are broken",
    why="One bad line, or one repository listed twice with different keys (Signed-By), stops every apt command.",
    fix="Repair or remove the named file under /etc/apt/sources.list.d, then run apt-get update",
)
def apt_sources(look: Look) -> Iterator[Found | Unknown]:
    if look.state.apt.errors is None:
        yield Unknown("there is no apt-get")
    for line in _errors(look, ours=False)[:1]:
        room = "Free some room first, `df -h /tmp /var` says where" if "No space left" in line else ""
        yield Found(f"apt says: {line}", room)


@entry(
    "apt-toolkit-source",
    "warns",
    "The toolkit's repository is listed already, with another key",
    why="Until one of the two is gone every apt command fails; the installation moves the other file aside.",
    fix="Nothing to do: it is renamed to *.disabled-by-hami-k3s. To do it yourself, remove the named file",
)
def apt_toolkit_source(look: Look) -> Iterator[Found]:
    for line in _errors(look, ours=True)[:1]:
        yield Found(f"apt says: {line}")


@entry(
    "apt-lock",
    "warns",
    "Another process holds dpkg's or apt's lock",
    why="apt waits for it, up to toolkit_timeout.",
    fix="Wait until it is done; never delete the lock file",
)
def apt_lock(look: Look) -> Iterator[Found | Unknown]:
    if look.state.apt.holders is None:
        yield Unknown("/proc/locks cannot be read")
    elif look.state.apt.holders:
        yield Found(f"the lock is held by {', '.join(look.state.apt.holders)}")


@entry(
    "dpkg-interrupted",
    "warns",  # an interrupted run of ours leaves it too, and the next run must go on by itself
    "dpkg was interrupted",
    why="apt refuses to install anything until it is finished; the installation of the toolkit finishes it first.",
    fix="Nothing to do, or finish it yourself: dpkg --configure -a",
)
def dpkg_interrupted(look: Look) -> Iterator[Found | Unknown]:
    state = look.state.apt
    if state.interrupted is None and state.half is None:
        yield Unknown("dpkg's state cannot be read")
    elif not state.holders:  # whoever holds the lock is at work on it
        if state.interrupted:
            yield Found("dpkg was ended in the middle: /var/lib/dpkg/updates is not empty")
        if state.half:
            yield Found(f"not configured: {', '.join(state.half[:5])}")


@entry(
    "first-boot",
    "warns",
    "First-boot or automatic package work is still running",
    why="It takes apt's lock at any moment and may change packages under the installation.",
    fix="Wait: cloud-init status --wait; systemctl stop apt-daily.timer apt-daily-upgrade.timer",
)
def first_boot(look: Look) -> Iterator[Found]:
    if look.state.apt.busy:
        yield Found(f"still running: {', '.join(look.state.apt.busy)}")


@entry(
    "held",
    "warns",
    "Packages are held at another version than the pinned one",
    why="Somebody wants that version; the installation replaces it and holds the pinned one.",
    fix="Set toolkit_version to the held version, or let it be replaced",
)
def held(look: Look) -> Iterator[Found | Unknown]:
    if look.state.apt.held is None:
        yield Unknown("dpkg-query did not answer")
        return
    wanted = f"{look.settings.toolkit_version}-1"
    other = [
        f"{name} {version}"
        for name, version in look.state.apt.held.items()
        if name in PACKAGES and version != wanted
    ]
    if other:
        yield Found(f"held: {', '.join(other)}; pinned: {wanted}")


def _blacklisted(name: str, lines: tuple[str, ...]) -> bool:
    patterns = [
        m.group(1)
        for line in lines
        if (m := re.match(r'Unattended-Upgrade::Package-Blacklist:: "(.+)";', line))
    ]
    for pattern in patterns:
        try:
            if re.match(pattern, name):
                return True
        except re.error:
            continue
    return False


@entry(
    "driver-upgrades",
    "warns",
    "Unattended upgrades may replace the driver",
    why="The library is then newer than the loaded module, and every GPU pod fails until the next reboot.",
    fix="""printf 'Unattended-Upgrade::Package-Blacklist { "nvidia-"; "libnvidia-"; "cuda-"; "linux-modules-nvidia-"; };\\n' \
>/etc/apt/apt.conf.d/51-nvidia-driver""",
)
def driver_upgrades(look: Look) -> Iterator[Found | Unknown]:
    state = look.state.apt
    if state.upgrades is None or state.nvidia is None:
        yield Unknown("apt-config or dpkg-query did not answer")
        return
    if 'APT::Periodic::Unattended-Upgrade "1";' not in state.upgrades:
        return
    open_to_it = [
        name
        for name in state.nvidia
        if name not in (state.held or {}) and not _blacklisted(name, state.upgrades)
    ]
    if open_to_it:
        yield Found(f"unattended-upgrades may replace {', '.join(open_to_it[:4])}")
