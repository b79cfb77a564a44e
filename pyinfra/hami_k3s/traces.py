"""What this project, and what it installs, leaves on a host, and which part of a reset takes it away. Shell patterns.

A unit test holds templates and operations to this list: a path that is written and not named here fails it.
"""

from __future__ import annotations

from typing import Literal

Part = Literal["always", "k3s", "toolkit", "stays"]

OURS = "Written by pyinfra-hami-k3s"
LIBRARY = "/usr/local/lib/hami-k3s"
RUN = "/run/hami-k3s"
STORE = "/var/lib/hami-k3s/bundle"
K3S = "/etc/rancher/k3s"
ASIDE = ".disabled-by-hami-k3s"
CDI = "/var/run/cdi"
# Of it only the default runtime is HAMi's; the rest stays as long as k3s.
DROP_IN = f"{K3S}/config.yaml.d/50-gpu-node.yaml"
# Written before k3s is taken away, and removed last: a removal that was begun is finished without asking again.
BEGUN = f"{LIBRARY}/k3s-removal"

# Ours by their names; `*` also takes what an interrupted write left beside a file.
PATHS: dict[Part, tuple[str, ...]] = {
    "always": (f"{LIBRARY}/charts",),
    "k3s": (
        f"{LIBRARY}/k3s-*",
        f"{LIBRARY}/helm-*",
        f"{LIBRARY}/registries.*",
        f"{LIBRARY}/.download.*",
        f"{DROP_IN}*",
        f"{K3S}/hami-k3s.env*",
        f"{K3S}/hami-k3s.token*",
        f"{K3S}/config.yaml.d/51-cluster.yaml*",
        f"{K3S}/registries.yaml.*hami-k3s*",
        "/usr/local/bin/k3s*.hami-k3s-new",
        "/etc/systemd/system/k3s.service.hami-k3s-new",
        "/etc/systemd/system/k3s-agent.service.hami-k3s-new",
        # of the bundle all but the toolkit's packages
        f"{STORE}/[!l]*",
        f"{STORE}/.incoming",
    ),
    "toolkit": (
        "/etc/apt/keyrings/nvidia-container-toolkit.asc*",
        "/etc/apt/sources.list.d/nvidia-container-toolkit.sources",
        f"{LIBRARY}/private-ca.*",
        "/usr/local/share/ca-certificates/hami-k3s.crt*",
        "/etc/ssl/certs/hami-k3s.pem",
        f"{STORE}/libnvidia-container",
    ),
    # NVIDIA's driver stays, and with it what keeps it at its branch.
    "stays": (
        "/etc/apt/keyrings/hami-k3s-nvidia-driver.asc",
        "/etc/apt/sources.list.d/hami-k3s-nvidia-driver.sources",
        "/etc/apt/preferences.d/50-hami-k3s-nvidia-driver",
        "/etc/apt/apt.conf.d/51-hami-k3s-nvidia-driver",
    ),
}
# Of other makers; they are this project's where LIBRARY is, for it goes last.
MADE: dict[Part, tuple[str, ...]] = {
    "always": ("/usr/local/vgpu", "/tmp/vgpulock", f"{CDI}/k8s.device-plugin.nvidia.com-gpu.json"),
    "k3s": (
        f"{K3S}/k3s.yaml",
        "/etc/rancher/node",
        "/var/lib/rancher/k3s",
        "/var/lib/kubelet",
        "/var/lib/cni",
        "/var/log/pods",
        "/var/log/containers",
        "/run/k3s",
        "/run/flannel",
    ),
    "toolkit": ("/etc/nvidia-container-runtime",),
}
# Ours when they say so.
MARKED = (
    "/etc/systemd/system/k3s.service",
    "/etc/systemd/system/k3s-agent.service",
    "/usr/local/bin/k3s-killall.sh",
    "/usr/local/bin/k3s-uninstall.sh",
)
# name in /usr/local/bin -> where a link of ours leads
LINKS = {
    "k3s": f"{LIBRARY}/*",
    "helm": f"{LIBRARY}/*",
    "k3s.new": f"{LIBRARY}/*",
    "helm.new": f"{LIBRARY}/*",
    "kubectl": "k3s",
    "crictl": "k3s",
    "ctr": "k3s",
}
# Removed when they are empty, in this order.
FOLDERS = (f"{K3S}/config.yaml.d", K3S, "/etc/rancher", STORE, "/var/lib/hami-k3s", LIBRARY)


def probe() -> str:
    """Shell that prints `PART PATH` for each path that is there."""
    lines = [
        'left() { p=$1; shift; for f; do if [ -e "$f" ] || [ -L "$f" ]; then echo "$p $f"; fi; done; }',
        *(f"left {part} {' '.join(patterns)}" for part, patterns in PATHS.items()),
        f"! grep -qs '^default-runtime: nvidia' {DROP_IN} || echo 'always {DROP_IN}'",
        f"[ ! -d {LIBRARY} ] || {{",
        *(f"left {part} {' '.join(patterns)}" for part, patterns in MADE.items()),
        "}",
        f"for f in {' '.join(MARKED)}; do ! grep -qsF '{OURS}' $f || echo \"k3s $f\"; done",
    ]
    # Another installer's kubectl leads to its own k3s.
    k3s = "/usr/local/bin/k3s"
    lines.append(f"k=$(readlink {k3s} || {{ [ ! -e {k3s} ] || echo other; }})")
    for name, target in LINKS.items():
        link = f"/usr/local/bin/{name}"
        own = (
            f"left k3s {link}" if target != "k3s" else f'case "$k" in ""|{LIBRARY}/*) left k3s {link};; esac'
        )
        lines.append(f'case "$(readlink {link})" in {target}) {own};; esac')
    # The source that stood aside for ours comes back, where nobody has made another one.
    lines.append(
        f"for f in /etc/apt/sources.list{ASIDE} /etc/apt/sources.list.d/*{ASIDE}; do "
        f'[ ! -e "$f" ] || [ -e "${{f%{ASIDE}}}" ] || echo "toolkit $f"; done; true'
    )
    return "\n".join(lines)
