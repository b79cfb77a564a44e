"""Steps 2 and 3 of the lab: k3s, with NVIDIA's runtime as containerd's default."""

from __future__ import annotations

from typing import Any

from pyinfra import host
from pyinfra.api.deploy import deploy

from hami_k3s import cluster, releases, trusted
from hami_k3s.facts.binary import Binary
from hami_k3s.facts.files import Digests
from hami_k3s.facts.k3s import BINARY, INPUTS_SCRIPT, INPUTS_STARTED, LIBRARY, K3s
from hami_k3s.operations import authority, binary, files, images, join, k3s, members
from hami_k3s.operations.registries import Registries
from hami_k3s.releases import archives, origin
from hami_k3s.settings import Settings
from hami_k3s.stages.common import settings, sources
from hami_k3s.templating import render

# Root's alone: a proxy's URL may hold a password. The user's own environment files come after it and win.
PROXIES = "/etc/rancher/k3s/hami-k3s.env"
HEAD = "# Written by pyinfra-hami-k3s: http_proxy, https_proxy, no_proxy of the settings.\n"


@deploy("k3s")
def server() -> None:
    """k3s at the pinned version on every host, and the servers ready: with a card, the default runtime read back.

    A host without a cluster is a server of its own. Agents get everything but the place to join.
    """
    want = settings()
    trusted.plan(host, Binary, **binary.k3s(want).places)
    trusted.plan(host, K3s, **k3s.reading(host))
    downloads(want)
    owned, registries = contents(want), Registries(origin.resolved(want.k3s_registries))
    trusted.plan(host, Digests, paths=files.paths(owned, registries))
    files.owned(name="Unit, configuration, scripts", contents=owned, registries=registries)
    limit, gpu = want.k3s_ready_timeout, bool(want.k3s_gpu)
    if len(cluster.servers(host)) > 1 and not cluster.is_agent(host):
        members.server(name="Servers, one at a time", version=want.k3s_version, limit=limit, gpu=gpu)
    elif not cluster.is_agent(host):
        k3s.service(name="Running with this configuration")
        k3s.ready(name="Ready, NVIDIA's runtime by default", version=want.k3s_version, limit=limit, gpu=gpu)
    if cluster.has_clusters(host):
        join.together(name="Servers are ready", step="the servers are ready")


def downloads(want: Settings, link: bool = True) -> None:
    """k3s' binary and image archives.

    + link: make it the one that is started next
    """
    where, aliases = sources(want), ("kubectl", "crictl", "ctr")
    binary.released(name="Verified binary", tool=binary.k3s(want), aliases=aliases, origin=where, link=link)
    if any(archives.wanted(want, where, arch) for arch in releases.ARCHITECTURES.values()):
        trusted.plan(host, Digests, paths=[images.LIST])
        images.imported(name="Image archives", settings=want, origin=where)


@deploy("k3s")
def agent() -> None:
    """The agents of clusters join, and are ready."""
    want = settings()
    if cluster.is_agent(host):
        limit, gpu = want.k3s_ready_timeout, bool(want.k3s_gpu)
        join.agent(name="Joined", limit=limit)
        k3s.service(name="Agent running with this configuration")
        k3s.ready(
            name="Agent ready, NVIDIA's runtime by default", version=want.k3s_version, limit=limit, gpu=gpu
        )
    if cluster.has_clusters(host):
        join.together(name="Nodes have joined", step="the nodes have joined")


def contents(want: Settings) -> dict[str, tuple[str, str]]:
    """k3s' files that this project owns: path -> (text, mode)."""
    unit = "k3s-agent" if want.k3s_role == "agent" else "k3s"
    names: dict[str, Any] = {
        "binary": BINARY,
        "inputs": INPUTS_SCRIPT,
        "started": INPUTS_STARTED,
        "library": LIBRARY,
    }
    names |= {"proxies": PROXIES, "authority": authority.FILE, "unit": unit, "role": want.k3s_role}
    drop_in = render(
        "50-gpu-node.yaml",
        gpu=want.k3s_gpu,
        role=want.k3s_role,
        node_ip=want.k3s_node_ip,
        kubeconfig_mode=want.k3s_kubeconfig_mode,
    )
    return {
        "/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml": (drop_in, "600"),
        PROXIES: (HEAD + origin.cluster_environment(want.proxies), "600"),
        f"/etc/systemd/system/{unit}.service": (render("k3s.service", **names), "644"),
        INPUTS_SCRIPT: (render("k3s-inputs", **names), "755"),
        "/usr/local/bin/k3s-killall.sh": (render("k3s-killall.sh", **names), "755"),
        "/usr/local/bin/k3s-uninstall.sh": (render("k3s-uninstall.sh", **names), "755"),
    }
