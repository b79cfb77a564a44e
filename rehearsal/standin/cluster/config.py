"""k3s' configuration: config.yaml, its drop-ins and the command line, as k3s merges them.

Every key of a file becomes `--key=value` before the command-line arguments, so the command line wins. Of a key given
in several files the last file wins; `key+` appends. A key that no flag knows is skipped with a warning.
"""

import os
import re
from pathlib import Path
from typing import Any

import yaml

from . import log, paths
from .words import words

LISTS = set(
    words(
        """
    tls-san node-label node-taint disable kubelet-arg kube-apiserver-arg kube-scheduler-arg
    kube-proxy-arg kube-controller-manager-arg kube-cloud-controller-manager-arg etcd-arg node-ip
    node-external-ip node-internal-dns node-external-dns cluster-cidr service-cidr cluster-dns
    image-credential-provider-bin-dir
    """
    )
)
BOOLEANS = set(
    words(
        """
    cluster-init disable-helm-controller disable-network-policy disable-kube-proxy
    disable-cloud-controller disable-scheduler disable-apiserver disable-controller-manager
    disable-etcd debug docker embedded-registry secrets-encryption protect-kernel-defaults
    nonroot-devices prefer-bundled-bin rootless selinux with-node-id tls-san-security
    disable-default-registry-endpoint cluster-reset
    etcd-disable-snapshots etcd-expose-metrics flannel-ipv6-masq flannel-external-ip
    supervisor-metrics enable-pprof
    """
    )
)
SCALARS = set(
    words(
        """
    config write-kubeconfig write-kubeconfig-mode write-kubeconfig-group data-dir token token-file
    agent-token agent-token-file server node-name default-runtime private-registry
    system-default-registry pause-image snapshotter bind-address advertise-address https-listen-port
    advertise-port flannel-backend flannel-iface flannel-conf flannel-cni-conf cluster-domain
    service-node-port-range container-runtime-endpoint image-service-endpoint
    default-local-storage-path datastore-endpoint datastore-cafile datastore-certfile
    datastore-keyfile resolv-conf airgap-extra-registry lb-server-port kubelet-port log
    alsologtostderr v vmodule vpn-auth vpn-auth-file etcd-snapshot-retention
    etcd-snapshot-schedule-cron etcd-snapshot-dir etcd-s3 cluster-reset-restore-path
    secrets-encryption-provider image-service-endpoint kine-tls
    node-name-from-cloud-provider-metadata servicelb-namespace egress-selector-mode helm-job-image
    """
    )
)
KNOWN = LISTS | BOOLEANS | SCALARS
# What `k3s agent` knows of them; the other keys of a file are skipped there.
AGENT = set(
    words(
        """
    config debug v vmodule log alsologtostderr token token-file server data-dir node-name with-node-id
    node-label node-taint image-credential-provider-bin-dir selinux lb-server-port
    protect-kernel-defaults container-runtime-endpoint default-runtime image-service-endpoint
    pause-image snapshotter private-registry disable-default-registry-endpoint airgap-extra-registry
    nonroot-devices node-ip node-external-ip node-internal-dns node-external-dns resolv-conf
    flannel-iface flannel-conf flannel-cni-conf vpn-auth vpn-auth-file kubelet-arg kube-proxy-arg
    enable-pprof rootless prefer-bundled-bin docker bind-address kubelet-port
    """
    )
)
# Variables that stand in for a flag nobody gave.
ENVIRONMENT = {"K3S_URL": "server", "K3S_TOKEN": "token", "K3S_TOKEN_FILE": "token-file"}
ENVIRONMENT |= {"K3S_NODE_NAME": "node-name", "K3S_AGENT_TOKEN": "agent-token"}


class BadConfigError(Exception):
    """What k3s refuses to start with."""


def files() -> list[Path]:
    base = paths.on_node(paths.CONFIG)
    drop_ins = Path(f"{base}.d")
    found = [base] if base.is_file() else []
    if drop_ins.is_dir():
        found += sorted(f for f in drop_ins.iterdir() if f.suffix in (".yaml", ".yml") and f.is_file())
    return found


def merge_files(sources: list[Path]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for source in sources:
        try:
            content = yaml.safe_load(source.read_text()) or {}
        except yaml.YAMLError as problem:
            raise BadConfigError(f"failed to parse {source}: {problem}") from problem
        if not isinstance(content, dict):
            raise BadConfigError(f"failed to parse {source}: not a map")
        for raw, value in content.items():
            key, append = str(raw).removesuffix("+"), str(raw).endswith("+")
            if isinstance(value, dict):
                raise BadConfigError(f"{source}: the value of {key} is a map")
            if append and key in merged:
                merged[key] = _as_list(merged[key]) + _as_list(value)
            else:
                merged[key] = value
    return merged


def _as_list(value: Any) -> list[str]:
    if value is None:
        return []
    return [_text(v) for v in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse(argv: list[str], known: set[str] = KNOWN) -> dict[str, Any]:
    """The settings of `k3s server ARGV` (or `agent`): list flags as lists, booleans as bool, the others as text."""
    settings: dict[str, Any] = {}
    for key, value in merge_files(files()).items():
        if key not in known:
            log.warning(f"Unknown flag --{key} found in config.yaml, skipping")
            continue
        _set(settings, key, _as_list(value))
    from_cli: dict[str, list[str]] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        match = re.fullmatch(r"--?([a-z0-9][a-z0-9-]*)(?:=(.*))?", word, re.DOTALL)
        if not match or match[1] not in known:
            raise BadConfigError(f"flag provided but not defined: {word.split('=')[0].replace('--', '-')}")
        key, value = match[1], match[2]
        if value is None:
            if key in BOOLEANS:
                value = "true"
            elif words:
                value = words.pop(0)
            else:
                raise BadConfigError(f"flag needs an argument: -{key}")
        from_cli.setdefault(key, []).append(value)
    for key, values in from_cli.items():
        _set(settings, key, values)
    for variable, key in ENVIRONMENT.items():
        if key in known and key not in settings and os.environ.get(variable):
            settings[key] = os.environ[variable]
    return settings


def _set(settings: dict[str, Any], key: str, values: list[str]) -> None:
    if key in LISTS:
        settings[key] = [part for value in values for part in value.split(",") if part]
    elif key in BOOLEANS:
        settings[key] = bool(values) and values[-1].lower() in ("true", "1", "t")
    else:
        settings[key] = values[-1] if values else ""
