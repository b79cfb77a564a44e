"""What decides whether a host can be a GPU node, read in one command that changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

from hami_k3s.facts import batch, nvidia
from hami_k3s.facts.k3s import parse_version

# Sudo is asked by hand: with pyinfra's own, a user without it would end the fact before it could say so.
_ROOT = '[ "$(id -u)" = 0 ] && S= || S="sudo -n"; $S'

# k3s applies what lies in this folder, at once or at its next start.
MANIFESTS = "grep -rlsE 'nvidia-device-plugin|gpu-operator' /var/lib/rancher/k3s/server/manifests"

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
    "k3s": "k3s --version",
    "kubelet": "for p in /proc/[0-9]*; do "
    'case "$(cat $p/comm)" in kubelet|microk8s*|k0s|rke2*) cat $p/comm;; esac; done; true',
    "daemonsets": f"{_ROOT} timeout 20 k3s kubectl --request-timeout=15s get daemonsets -A --no-headers "
    "-o custom-columns=A:.metadata.namespace,B:.metadata.name,C:.spec.template.spec.containers[*].image",
    "crds": f"{_ROOT} timeout 20 k3s kubectl --request-timeout=15s get crd -o name",
    **nvidia.PROBES,
}


@dataclass(frozen=True)
class HostState:
    """Unknown parts are None. `providers`: what else serves nvidia.com/gpu, one line each."""

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
    kubelets: tuple[str, ...] = ()
    operator_toolkit: bool = False
    providers: tuple[str, ...] = ()
    nvidia: nvidia.NvidiaState = field(default_factory=nvidia.NvidiaState)


def is_provider(text: str) -> bool:
    """Does a DaemonSet line or an object's name belong to NVIDIA's own device plugin or the GPU Operator?"""
    return any(word in text for word in ("nvidia-device-plugin", "k8s-device-plugin", "gpu-operator"))


def parse(output: list[str]) -> HostState:
    """HostState from the answers to PROBES."""
    answers = batch.parse(output)

    def value(name: str) -> str | None:
        return answers.get(name, batch.NOTHING).value

    os_lines = (value("os") or "\n").split("\n")
    providers = [f"manifest {path}" for path in (value("manifests") or "").split()]
    providers += [
        f"DaemonSet {' '.join(line.split())}"
        for line in (value("daemonsets") or "").splitlines()
        if is_provider(line)
    ]
    providers += [
        f"CRD {line}" for line in (value("crds") or "").splitlines() if "clusterpolicies.nvidia.com" in line
    ]
    container = value("container")
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
        kubelets=tuple(sorted(set((value("kubelet") or "").split()))),
        operator_toolkit=value("operator") is not None,
        providers=tuple(providers),
        nvidia=nvidia.state(answers),
    )


class Host(FactBase[HostState]):
    """
    Returns a `HostState`; read it with `_sudo=False`, it asks for sudo itself and reports the lack of it.

    .. code:: python

        HostState(user="ubuntu", root=True, systemd=True, os_id="ubuntu", os_version="22.04", machine="x86_64", ...)
    """

    default = HostState

    @override
    def command(self) -> StringCommand:
        return StringCommand(batch.script(PROBES))

    @override
    def process(self, output: list[str]) -> HostState:
        return parse(output)
