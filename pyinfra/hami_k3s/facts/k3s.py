"""k3s on a host: the binary, the service and what it really runs with."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from pyinfra.api import StringCommand
from typing_extensions import override

from hami_k3s.facts import api as kube
from hami_k3s.facts import batch
from hami_k3s.facts.kubernetes import Node, answer_items, node
from hami_k3s.facts.shared import Shared
from hami_k3s.isolation.evidence import ContainerdConfig

LIBRARY = "/usr/local/lib/hami-k3s"
BINARY = "/usr/local/bin/k3s"
# The unit records the digest of its inputs at every start; the script prints the digest they have now.
INPUTS_SCRIPT = f"{LIBRARY}/k3s-inputs"
INPUTS_STARTED = "/run/hami-k3s/k3s.inputs"
CONTAINERD = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
# How this host got into its cluster: founded it, or joined it with this server's address and the token in that file.
CLUSTER_FILE = "/etc/rancher/k3s/config.yaml.d/51-cluster.yaml"
TOKEN_FILE = "/etc/rancher/k3s/hami-k3s.token"
SERVER_TOKEN = "/var/lib/rancher/k3s/server/token"


@dataclass(frozen=True)
class K3sState:
    """Unknown parts are None. `stale`: the running process was started with other inputs than are there now.

    `cluster_file`: text of CLUSTER_FILE. `data`: a server's data is here. `token`, `server_token`: sha256 of the token
    here and on the server. `password`: this host has been a node before and has its secret.
    """

    active: str | None = None
    sub: str | None = None
    enabled: bool = False
    pid: int = 0
    restarts: int = 0
    need_reload: bool = False
    age_s: float | None = None
    stale: bool = False
    containerd: ContainerdConfig | None = None
    containerd_error: str | None = None
    api: str | None = None
    nodes: dict[str, Node] | None = None
    own: Node | None = None
    hostname: str | None = None
    runtime_class: bool = False
    cluster_file: str | None = None
    data: bool = False
    token: str | None = None
    server_token: str | None = None
    password: bool = False

    @property
    def servers(self) -> dict[str, Node]:
        """The cluster's servers by address, as the API knows them."""
        return {one.address: one for one in (self.nodes or {}).values() if one.server and one.address}


def parse_containerd(text: str) -> ContainerdConfig:
    """ContainerdConfig from config.toml, schema 2 or 3. Errors: ValueError (tomllib's own for bad TOML)."""
    data = tomllib.loads(text)
    plugins = _table(data, "plugins")
    for name in ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"):
        if name in plugins:
            containerd = _table(_table(plugins, name), "containerd")
            runtimes = _table(containerd, "runtimes")
            binaries = {
                runtime: str(_table(_table(runtimes, runtime), "options").get("BinaryName", ""))
                for runtime in runtimes
            }
            default = containerd.get("default_runtime_name")
            version = data.get("version", 2)
            return ContainerdConfig(version if isinstance(version, int) else 0, default, binaries)
    raise ValueError("no CRI plugin section in containerd's config")


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name, {})
    if not isinstance(found, dict):
        raise ValueError(f"{name} is not a table in containerd's config")
    return found


def parse_version(text: str | None) -> str | None:
    """The release in `k3s --version`."""
    match = re.search(r"^k3s version (\S+)", text or "", re.MULTILINE)
    return match.group(1) if match else None


# A binary of ours has its release in its path, and said the same of itself before it got it.
RELEASE = (
    "b=$(command -v k3s) || exit 127; l=$(readlink -f $b); "
    f'case $l in {LIBRARY}/k3s-*) [ -x $l ] && echo "k3s version ${{l##*/k3s-}}";; *) $b --version;; esac'
)
PROBES = {
    "service": "systemctl show UNIT.service -p ActiveState -p SubState -p UnitFileState -p MainPID -p NRestarts"
    " -p NeedDaemonReload -p ActiveEnterTimestampMonotonic",
    "uptime": "cut -d' ' -f1 /proc/uptime",
    "inputs": INPUTS_SCRIPT,
    "started": f"cat {INPUTS_STARTED}",
    "containerd": f"cat {CONTAINERD}",
    "hostname": "hostname | tr A-Z a-z",
}
# Only where several hosts are a cluster.
MEMBER = {
    "cluster_file": f"cat {CLUSTER_FILE}",
    "data": "test -s /var/lib/rancher/k3s/server/tls/server-ca.crt && echo yes",
    "token": f"sha256sum <{TOKEN_FILE}",
    "password": "test -s /etc/rancher/node/password && echo yes",
}
SERVER = {"server_token": f"sha256sum <{SERVER_TOKEN}"}
API = {"api": "/readyz", "nodes": "/api/v1/nodes", "class": "/apis/node.k8s.io/v1/runtimeclasses/nvidia"}


def parse(output: list[str]) -> K3sState:
    """K3sState from the answers to PROBES and, where asked, API."""
    answers = batch.parse(output)

    def value(name: str) -> str | None:
        return answers.get(name, batch.NOTHING).value

    service = dict(line.split("=", 1) for line in (value("service") or "").splitlines() if "=" in line)

    def count(name: str) -> int:
        text = service.get(name, "")
        return int(text) if text.isascii() and text.isdigit() else 0

    uptime, entered = answers.get("uptime", batch.NOTHING).number, count("ActiveEnterTimestampMonotonic")
    active = service.get("ActiveState")
    config, config_error = None, None
    if text := value("containerd"):
        try:
            config = parse_containerd(text)
        except ValueError as error:
            config_error = str(error)
    listed = answer_items(answers, "nodes")
    nodes = {one.name: one for one in map(node, listed)} if listed is not None else None
    host = value("hostname")
    own = (nodes or {}).get(host or "")
    return K3sState(
        active=active,
        sub=service.get("SubState"),
        enabled=service.get("UnitFileState") == "enabled",
        pid=count("MainPID"),
        restarts=count("NRestarts"),
        need_reload=service.get("NeedDaemonReload") == "yes",
        age_s=uptime - entered / 1e6 if uptime and entered and active == "active" else None,
        stale=active == "active" and (value("inputs") is None or value("inputs") != value("started")),
        containerd=config,
        containerd_error=config_error,
        api=value("api"),
        nodes=nodes,
        own=own,
        hostname=host,
        runtime_class=value("class") is not None,
        cluster_file=value("cluster_file"),
        data=value("data") == "yes",
        token=(value("token") or "").partition(" ")[0] or None,
        server_token=(value("server_token") or "").partition(" ")[0] or None,
        password=value("password") == "yes",
    )


class K3s(Shared[K3sState]):
    """
    Returns the state of k3s.

    + api: ask the API server too (readiness, nodes, the RuntimeClass); without it those parts are None
    + unit: the service, without `.service`
    + member: the host is one of several in a cluster; without it those parts are None

    .. code:: python

        K3sState(active="active", stale=False,
                 containerd=ContainerdConfig(3, "nvidia", {"nvidia": "/usr/bin/nvidia-container-runtime"}), ...)
    """

    default = K3sState

    @override
    def command(self, api: bool, unit: str = "k3s", member: bool = False) -> StringCommand:
        return self.both(api=api, unit=unit, member=member)

    @override
    def own(self, api: bool, unit: str = "k3s", member: bool = False) -> str:
        probes = {**PROBES, "service": PROBES["service"].replace("UNIT", unit)}
        return batch.script({**probes, **(MEMBER if member else {})})

    @override
    def asked(self, api: bool, unit: str = "k3s", member: bool = False) -> str:
        if not api:
            return ""
        return (f"{batch.script(SERVER)}; " if member else "") + kube.script(API)

    @override
    def process(self, output: list[str]) -> K3sState:
        return parse(output)
