"""What decides whether a host can be a GPU node, read in one command that changes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

from hami_k3s.facts import apt as apt_facts
from hami_k3s.facts import batch
from hami_k3s.facts import driver as driver_facts
from hami_k3s.facts import machine as room_facts
from hami_k3s.facts import nvidia as nvidia_facts
from hami_k3s.facts import sources as sources_facts
from hami_k3s.facts.cluster import is_provider
from hami_k3s.facts.k3s import BINARY, RELEASE, parse_version
from hami_k3s.isolation.parse import QUERY

__all__ = ["MANIFESTS", "PROBES", "Host", "HostState", "is_provider", "parse"]

# Sudo is asked by hand: with pyinfra's own, a user without it would end the fact before it could say so.
_ROOT = room_facts.ROOT

# k3s applies what lies in this folder, at once or at its next start.
MANIFESTS = "grep -rlsE 'nvidia-device-plugin|gpu-operator' /var/lib/rancher/k3s/server/manifests"
UNITS = "/etc/systemd/system/k3s.service", "/etc/systemd/system/k3s-agent.service"

PROBES = {
    "user": "id -un",
    "root": f"{_ROOT} id -u",
    "init": "cat /proc/1/comm",
    "os": ". /etc/os-release; echo $ID; echo $VERSION_ID",
    "machine": "uname -m",
    # A container may have a root that cannot mount: k3s, containerd and HAMi all must.
    "mount": f"{_ROOT} unshare --mount true",
    "container": "systemd-detect-virt --container",
    "cgroup2": "test -e /sys/fs/cgroup/cgroup.controllers && echo yes",
    "manifests": f"{_ROOT} {MANIFESTS}",
    "operator": "ls -d /usr/local/nvidia/toolkit",
    "k3s": RELEASE,
    "k3s_link": f"readlink -f {BINARY}",
    "k3s_active": "systemctl -q is-active k3s.service || systemctl -q is-active k3s-agent.service && echo active",
    "k3s_units": f'for f in {" ".join(UNITS)}; do [ ! -e $f ] || {{ echo "== $f"; cat $f; }}; done',
    "k3s_joined": f"{_ROOT} grep -hsE '^server:' /etc/rancher/k3s/config.yaml",
    "registries": "ls /etc/rancher/k3s/registries.yaml",
    "kubelet": "grep -hsxE 'kubelet|microk8s.*|k0s|rke2.*' /proc/[0-9]*/comm; true",
    **nvidia_facts.PROBES,
    # A driver that does not know every field answers nothing at all, with status 2.
    "smi": f"o=$(timeout -k 2 30 {driver_facts.QUERY} 2>&1); s=$?; "
    f"[ $s != 2 ] || {{ o=$(timeout -k 2 30 {QUERY} 2>&1); s=$?; }}; "
    "printf '%s\\n' \"$o\"; exit $s",
    **driver_facts.PROBES,
    **apt_facts.PROBES,
}


@dataclass(frozen=True)
class HostState:
    """Unknown parts are None. `providers`: manifests of k3s' folder that bring another device plugin, one line each.

    `k3s_units`: path -> text of the units there. `sources`: what came back from each source that will be used.
    """

    user: str | None = None
    root: bool = False
    systemd: bool = False
    os_id: str | None = None
    os_version: str | None = None
    machine: str | None = None
    container: str | None = None
    can_mount: bool = False
    cgroup2: bool = False
    k3s: str | None = None
    k3s_link: str | None = None
    k3s_active: bool = False
    k3s_units: Mapping[str, str] = field(default_factory=dict)
    k3s_joined: str | None = None
    registries: bool = False
    kubelets: tuple[str, ...] = ()
    operator_toolkit: bool = False
    providers: tuple[str, ...] = ()
    nvidia: nvidia_facts.NvidiaState = field(default_factory=nvidia_facts.NvidiaState)
    driver: driver_facts.DriverState = field(default_factory=driver_facts.DriverState)
    room: room_facts.MachineState = field(default_factory=room_facts.MachineState)
    apt: apt_facts.AptState = field(default_factory=apt_facts.AptState)
    sources: tuple[sources_facts.Reached, ...] | None = None


def probes(
    ports: Mapping[int, str] = room_facts.PORTS,
    wanted: Sequence[sources_facts.Source] = (),
    proxies: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Every question, the clock last."""
    return {**PROBES, **sources_facts.probes(wanted, proxies), **room_facts.probes(ports)}


def parse(
    output: list[str], wanted: Sequence[sources_facts.Source] = (), now: float | None = None
) -> HostState:
    """HostState from the answers to `probes`, which arrived at `now` (seconds since 1970; default: this moment)."""
    answers = batch.parse(output)

    def value(name: str) -> str | None:
        return answers.get(name, batch.NOTHING).value

    os_lines = (value("os") or "\n").split("\n")
    container = value("container")
    units: dict[str, str] = {}
    for part in (value("k3s_units") or "").split("== /etc/")[1:]:
        path, _, text = part.partition("\n")
        units[f"/etc/{path}"] = text
    return HostState(
        user=value("user"),
        root=value("root") == "0",
        systemd=value("init") == "systemd",
        os_id=os_lines[0] or None,
        os_version=(os_lines[1] if len(os_lines) > 1 else "") or None,
        machine=value("machine"),
        container=None if container == "none" else container,
        can_mount=answers.get("mount", batch.NOTHING).status == 0,
        cgroup2=value("cgroup2") == "yes",
        k3s=parse_version(value("k3s")),
        k3s_link=value("k3s_link"),
        k3s_active=value("k3s_active") == "active",
        k3s_units=units,
        k3s_joined=(value("k3s_joined") or "").partition(":")[2].strip() or None,
        registries=value("registries") is not None,
        kubelets=tuple(sorted(set((value("kubelet") or "").split()))),
        operator_toolkit=value("operator") is not None,
        providers=tuple(f"manifest {path}" for path in (value("manifests") or "").split()),
        nvidia=nvidia_facts.state(answers),
        driver=driver_facts.state(answers),
        room=room_facts.state(answers, time.time() if now is None else now),
        apt=apt_facts.state(answers),
        sources=sources_facts.state(answers, wanted),
    )


class Host(FactBase[HostState]):
    """
    Returns a `HostState`; read it with `_sudo=False`, it asks for sudo itself and reports the lack of it.

    + ports: the ports that must be free, with their protocol
    + wanted: what the host must reach
    + proxies: the proxies to reach it through

    .. code:: python

        HostState(user="ubuntu", root=True, systemd=True, os_id="ubuntu", os_version="22.04", machine="x86_64", ...)
    """

    default = HostState
    _wanted: Sequence[sources_facts.Source] = ()

    @override
    def command(
        self,
        ports: Mapping[int, str] | None = None,
        wanted: Sequence[sources_facts.Source] = (),
        proxies: Mapping[str, str] | None = None,
    ) -> StringCommand:
        self._wanted = wanted
        asked = probes(room_facts.PORTS if ports is None else ports, wanted, proxies)
        return StringCommand(f"{room_facts.USER};", batch.script(asked))

    @override
    def process(self, output: list[str]) -> HostState:
        return parse(output, self._wanted)
