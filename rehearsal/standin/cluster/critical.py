"""Settings that have to be the same on every server of a cluster; a server that differs is not let in."""

from typing import Any

from . import log

NAMES = {
    "cluster-cidr": "10.42.0.0/16",
    "service-cidr": "10.43.0.0/16",
    "cluster-dns": "10.43.0.10",
    "cluster-domain": "cluster.local",
    "flannel-backend": "vxlan",
    "egress-selector-mode": "agent",
    "secrets-encryption": False,
    "embedded-registry": False,
    "disable-helm-controller": False,
    "disable-network-policy": False,
    "disable-kube-proxy": False,
    "disable-cloud-controller": False,
    "flannel-external-ip": False,
    "flannel-ipv6-masq": False,
}
MISMATCH = "failed to validate server configuration: critical configuration value mismatch between servers"


def of(settings: dict[str, Any]) -> dict[str, str]:
    found = {}
    for name, default in NAMES.items():
        value = settings.get(name) or default
        found[name] = ",".join(value) if isinstance(value, list) else str(value)
    disabled = set(settings.get("disable") or [])
    found |= {f"disable-{name}": str(name in disabled) for name in ("servicelb", "coredns")}
    return found


def differences(mine: dict[str, str], theirs: dict[str, str]) -> list[str]:
    found = [name for name, value in theirs.items() if mine.get(name) != value]
    for name in found:
        log.warning(f"critical configuration mismatched: {name}")
    return found
