"""The machine itself: room, clock, name, ports, firewall, proxies. Plain shell, /proc and /sys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hami_k3s.facts import batch

# A script with many of these asks once, before all of them.
USER = "_uid=$(id -u)"
ROOT = '[ "${_uid:=$(id -u)}" = 0 ] && S= || S="sudo -n"; $S'
DATA = ("/var/lib/rancher", "/var/lib/containerd")
PORTS = {6443: "tcp", 10250: "tcp", 8472: "udp"}
POD_NETWORKS = ("10.42.0.0/16", "10.43.0.0/16")


@dataclass(frozen=True)
class Filesystem:
    """Room under a path: MiB free and percent used, of the file system `mount` that holds it."""

    mount: str
    free_mib: int
    used_percent: int


@dataclass(frozen=True)
class MachineState:
    """Unknown parts are None. `clock_s`: seconds the host's clock is ahead of the control side's.

    `taken`: (port, protocol) -> program, of what listens there ("" when its name is not known).
    `firewalls`: active firewalls that have no rule for k3s' pod and service networks.
    `default_route`: does the kernel have one?
    `proxies`: where a proxy is set ("environment", "apt", "k3s", "systemd") -> its URL, without credentials.
    """

    filesystems: Mapping[str, Filesystem] | None = None
    memory_mib: int | None = None
    clock_s: float | None = None
    hostname: str | None = None
    machine_id: str | None = None
    taken: Mapping[tuple[int, str], str] | None = None
    firewalls: tuple[str, ...] | None = None
    default_route: bool | None = None
    proxies: Mapping[str, str] = field(default_factory=dict)


def probes(ports: Mapping[int, str] = PORTS) -> dict[str, str]:
    """The questions; `ports` are the ones that must be free. "proxy_apt" is in apt's own."""
    wanted = "|".join(f"{port:04X}" for port in ports)
    listening = "|".join(str(port) for port in ports)
    return {
        # Of a folder that is not there yet, its nearest parent counts.
        "disk": f"P=; for d in {' '.join(DATA)}; do p=$d; while [ ! -e $p ]; do p=${{p%/*}}; p=${{p:-/}}; done; "
        'P="$P $p"; done; df -Pk $P',
        "memory": "grep -m 1 ^MemTotal: /proc/meminfo",
        "hostname": "hostname",
        # As k3s reads them. The kernel's own unreachable route of IPv6 is on lo.
        "default_route": 'awk \'$2 == "00000000" && $8 == "00000000"\' /proc/net/route | head -n 1; '
        'test ! -e /proc/net/ipv6_route || awk \'$1 ~ /^0+$/ && $2 == "00" && $10 != "lo"\' /proc/net/ipv6_route',
        "machine_id": "cat /etc/machine-id",
        # 0A listens (TCP); 07 is an unconnected UDP socket.
        "sockets": f"cd /proc/net && grep -HE '^ *[0-9]+: [0-9A-F]+:({wanted}) [0-9A-F]+:[0-9A-F]+ (0A|07) ' "
        "tcp tcp6 udp udp6; test -r tcp",
        "listeners": f"{ROOT} ss -Htunlp | grep -E ':({listening}) '",
        "ufw": f"{ROOT} grep -hsE '^ENABLED=' /etc/ufw/ufw.conf; test ! -e /etc/ufw/ufw.conf || "
        f"{ROOT} cat /etc/ufw/user.rules",
        "firewalld": f"systemctl is-active firewalld; {ROOT} timeout 5 firewall-cmd --zone=trusted --list-sources; true",
        "proxy_environment": "printf '%s\\n' \"${https_proxy:-${HTTPS_PROXY:-${http_proxy:-$HTTP_PROXY}}}\"; "
        "sed -n -E 's/^ *(export +)?[hH][tT][tT][pP][sS]?_[pP][rR][oO][xX][yY]=//p' /etc/environment",
        "proxy_k3s": "for f in /etc/default/k3s /etc/sysconfig/k3s /etc/systemd/system/k3s.service.env; do "
        f"{ROOT} sed -n -E 's/^ *(CONTAINERD_)?HTTPS?_PROXY=//p' $f; done; true",
        "proxy_systemd": "systemctl show-environment | sed -n -E 's/^[hH][tT][tT][pP][sS]?_[pP][rR][oO][xX][yY]=//p'",
        "clock": "date +%s",  # the last one: the answer is compared with the time of its arrival
    }


def _filesystems(text: str | None) -> dict[str, Filesystem] | None:
    found = {}
    for folder, line in zip(DATA, (text or "").splitlines()[1:], strict=False):
        # device, blocks, used, available, capacity, mount point
        words = line.split()
        if len(words) >= 6 and words[3].isdecimal() and words[4].rstrip("%").isdecimal():
            found[folder] = Filesystem(words[5], int(words[3]) // 1024, int(words[4].rstrip("%")))
    return found or None


def _taken(sockets: batch.Answer, listeners: str) -> dict[tuple[int, str], str] | None:
    if sockets.status:
        return None
    found = {}
    for line in sockets.text.splitlines():
        match = re.match(r"(tcp|udp)6?: *\d+: [0-9A-F]+:([0-9A-F]+) ", line)
        if match is None:
            continue
        protocol, port = match[1], int(match[2], 16)
        program = ""
        for row in listeners.splitlines():
            if f":{port} " in row and row.startswith(protocol) and 'users:(("' in row:
                program = row.split('users:(("')[1].split('"')[0]
        found[port, protocol] = program
    return found


def _firewalls(ufw: batch.Answer, firewalld: str) -> tuple[str, ...] | None:
    found: list[str] = []
    if "ENABLED=yes" in ufw.text:
        if ufw.status:
            return None  # it is on, and its rules could not be read
        if not all(f"-s {network}" in ufw.text for network in POD_NETWORKS):
            found.append("ufw")
    lines = firewalld.splitlines()
    if lines[:1] == ["active"] and not all(network in firewalld for network in POD_NETWORKS):
        found.append("firewalld")
    return tuple(found)


def without_credentials(url: str) -> str:
    """The same URL without user and password, which no report may show."""
    scheme, mark, rest = url.strip().strip("'\"").partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def state(answers: Mapping[str, batch.Answer], now: float) -> MachineState:
    """MachineState from the answers; `now` is the control side's time at their arrival."""

    def value(name: str) -> str | None:
        return answers.get(name, batch.NOTHING).value

    memory, routes = (value("memory") or "").split(), answers.get("default_route", batch.NOTHING)
    clock = answers.get("clock", batch.NOTHING).number
    proxies = {
        where: without_credentials(lines[0])
        for where in ("environment", "k3s", "systemd")
        if (lines := [line for line in (value(f"proxy_{where}") or "").splitlines() if line.strip()])
    }
    if found := re.search(r'^Acquire::https?::Proxy "(.+)";$', value("apt_config") or "", re.MULTILINE):
        proxies["apt"] = without_credentials(found[1])
    return MachineState(
        filesystems=_filesystems(value("disk")),
        memory_mib=int(memory[1]) // 1024 if len(memory) > 1 and memory[1].isdecimal() else None,
        clock_s=None if clock is None else clock - now,
        hostname=value("hostname"),
        machine_id=value("machine_id"),
        taken=_taken(answers.get("sockets", batch.NOTHING), value("listeners") or ""),
        firewalls=_firewalls(answers.get("ufw", batch.NOTHING), value("firewalld") or ""),
        default_route=None if routes.status else bool(routes.text.strip()),
        proxies=proxies,
    )
