"""What kind of machine this is, and what may be done on it."""

from __future__ import annotations

from collections.abc import Iterator

from hami_k3s import releases
from hami_k3s.preflight.entry import Found, Look, Unknown, entry

SUPPORTED = {"ubuntu": ("22.04", "24.04"), "debian": ("12", "13")}


@entry(
    "not-root",
    "blocks",
    "The SSH user is not root and has no sudo without a password",
    why="Packages, services and the container runtime can only be set up by root.",
    fix="Connect as root, or allow sudo without a password",
)
def not_root(look: Look) -> Iterator[Found]:
    user = look.state.user
    if not look.state.root:
        allow = f"echo '{user} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/90-hami-k3s"
        yield Found(
            f"user {user} is not root and has no sudo without a password",
            f"Connect as root, or allow it: {allow}",
        )


@entry(
    "no-systemd",
    "blocks",
    "Process 1 is not systemd",
    why="k3s runs as a systemd service, and long steps run as transient units.",
    fix="k3s runs as a systemd service: use a whole machine or VM",
)
def no_systemd(look: Look) -> Iterator[Found]:
    if not look.state.systemd:
        yield Found("process 1 is not systemd")


@entry(
    "os",
    "blocks",
    "The system is not one of the supported ones",
    why="Package names, paths and the driver's packages are known for these systems only.",
    fix="Supported: Ubuntu 22.04 and 24.04, Debian 12 and 13",
)
def system(look: Look) -> Iterator[Found]:
    name, version = look.state.os_id, look.state.os_version
    if name is None or version not in SUPPORTED.get(name, ()):
        yield Found(f"the system is {name or 'unknown'} {version or ''}".rstrip())


@entry(
    "architecture",
    "blocks",
    "The machine's architecture is not supported",
    why="k3s, the toolkit and HAMi's images exist for these two.",
    fix="Supported: x86_64, aarch64",
)
def architecture(look: Look) -> Iterator[Found]:
    if releases.architecture(look.state.machine or "") is None:
        yield Found(f"the machine is {look.state.machine or 'unknown'}")


@entry(
    "container",
    "blocks",
    "Root may not mount: this is an unprivileged container",
    why="HAMi-core is injected by NVIDIA's container runtime, which cannot be set up from inside such a container.",
    fix="A marketplace container is not enough: rent a VM or a whole machine",
)
def container(look: Look) -> Iterator[Found]:
    state = look.state
    if state.root and not state.can_mount:
        inside = f"inside a {state.container} container " if state.container else ""
        yield Found(f"root {inside}may not mount: the container runtime cannot be configured from here")


@entry(
    "cgroup-v1",
    "blocks",
    "The host uses cgroup v1, which this k3s refuses",
    why="kubelet 1.35 and later does not start on cgroup v1.",
    fix="Boot with systemd.unified_cgroup_hierarchy=1",
)
def cgroup_v1(look: Look) -> Iterator[Found]:
    if not look.state.cgroup2 and releases.numbers(look.settings.k3s_version) >= (1, 35):
        yield Found("the host uses cgroup v1, which kubelet 1.35 and later refuses")


@entry(
    "hostname",
    "blocks",
    "The hostname cannot be the name of a node",
    why="k3s names the node after the host, and Kubernetes takes a-z, 0-9, - and . only.",
    fix="hostnamectl set-hostname gpu-1",
)
def hostname(look: Look) -> Iterator[Found | Unknown]:
    name = look.state.room.hostname
    if name is None:
        yield Unknown("the host did not say its name")
        return
    lower = name.lower()
    plain = all(
        part and set(part) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for part in lower.split(".")
    )
    if (
        not plain
        or len(lower) > 63
        or lower[0] == "-"
        or lower[-1] == "-"
        or lower.split(".")[0] == "localhost"
    ):
        yield Found(f"the host is named {name!r}")


@entry(
    "hostname-twice",
    "warns",
    "Another host of this run has the same hostname or machine id",
    why="Two nodes of one cluster that share a name replace each other again and again; equal machine ids are cloned images.",
    fix="Give it a name of its own: hostnamectl set-hostname NAME; after cloning also "
    "rm /etc/machine-id && systemd-machine-id-setup, then reboot",
)
def hostname_twice(look: Look) -> Iterator[Found]:
    own = look.state.room
    for name, other in sorted(look.others.items()):
        same = "name" if own.hostname and own.hostname == other.state.room.hostname else ""
        same = same or (
            "machine id" if own.machine_id and own.machine_id == other.state.room.machine_id else ""
        )
        if same:
            cluster = look.settings.k3s_cluster
            together = cluster is not None and cluster == other.settings.k3s_cluster
            what = f"hostname {own.hostname}" if same == "name" else "machine id"
            yield Found(f"{what} is that of {name}, too", severity="blocks" if together else None)
            return
