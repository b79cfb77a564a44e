"""What a host shall be after an upgrade, and what is still to be done for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from pyinfra.api import Host

from hami_k3s import cluster, trusted, upgrade_plan
from hami_k3s.difference import Difference
from hami_k3s.facts.binary import Binary
from hami_k3s.facts.files import Digests
from hami_k3s.facts.helm import ReleaseState
from hami_k3s.facts.k3s import K3sState
from hami_k3s.facts.kubernetes import KUBECTL, items
from hami_k3s.facts.toolkit import Toolkit
from hami_k3s.operations import binary, drain, files, k3s, toolkit
from hami_k3s.operations.registries import Registries
from hami_k3s.releases.origin import Origin
from hami_k3s.settings import Settings

NEW_PLUGIN = "HAMi's new device plugin, its library is copied over the live one"


@dataclass(frozen=True)
class Target:
    """What a host shall be. `url`: the toolkit's repository; `contents`, `registries`: k3s' files."""

    settings: Settings
    origin: Origin
    url: str
    contents: files.Contents
    registries: Registries

    @property
    def gpu(self) -> bool:
        return bool(self.settings.k3s_gpu)

    @property
    def release(self) -> Mapping[str, str]:
        return {"release": self.settings.hami_release, "namespace": self.settings.hami_namespace}

    @property
    def limit(self) -> int:
        """Seconds that one node may take at most."""
        want = self.settings
        return (
            want.upgrade_drain_timeout
            + want.toolkit_timeout
            + 2 * want.k3s_ready_timeout
            + 6 * want.hami_ready_timeout
            + 600
        )


def now(state: K3sState, release: ReleaseState, target: Target) -> upgrade_plan.Now:
    """What runs on this host, for `upgrade_plan`."""
    kubelet = state.own.kubelet if state.own is not None else None
    return upgrade_plan.Now(kubelet, release.server_version, release.chart_version if target.gpu else None)


def k3s_differences(host: Host, target: Target) -> list[Difference]:
    """Of the binary, k3s' files, its service, and the version that the node says it has."""
    version, state = target.settings.k3s_version, k3s.state_of(host)
    found = binary.differences(
        trusted.read(host, Binary, **binary.k3s(target.settings).places), "k3s", version, True
    )
    digests = trusted.read(host, Digests, paths=files.paths(target.contents, target.registries))
    found += files.differences(digests, target.contents, target.registries)
    found += k3s.service_differences(state, cluster.unit(host))
    if state.own is not None and state.own.kubelet != version:
        found.append(Difference("node", state.own.name, state.own.kubelet, version))
    return found


def toolkit_differences(host: Host, target: Target) -> list[Difference]:
    """Of the toolkit's packages, on a host with a card."""
    if not target.gpu:
        return []
    version = target.settings.toolkit_version
    return toolkit.package_differences(trusted.read(host, Toolkit, url=target.url, version=version), version)


def marked(state: K3sState) -> bool:
    """Was this node taken out by an upgrade that did not put it back?"""
    return state.own is not None and drain.MARK in state.own.annotations


def plugins(host: Host, target: Target) -> upgrade_plan.Plugins | None:
    """The device plugin's pods of the whole cluster; None when the API does not answer."""
    labels = f"app.kubernetes.io/component=hami-device-plugin,app.kubernetes.io/instance={target.release['release']}"
    space = shlex.quote(target.release["namespace"])
    kinds = "daemonsets.apps,controllerrevisions.apps,pods"
    said = cluster.ask(host, f"{KUBECTL} -n {space} get {kinds} -l {shlex.quote(labels)} -o json")
    return upgrade_plan.plugins(items(said.stdout)) if said.ok else None


def reasons(host: Host, target: Target, state: K3sState, release: ReleaseState) -> list[str]:
    """Why this node must be without GPU pods while it is upgraded; empty when it need not be."""
    if not target.gpu:
        return []
    plan = now(state, release, target)
    why = upgrade_plan.drains(plan, target.settings)
    changes = plan.chart != target.settings.hami_chart_version
    if not changes and upgrade_plan.must_stay(plan, release.values, target.settings):
        found = plugins(host, target)
        if found is None or not found.settled or (state.hostname or "") in found.older:
            why.append(NEW_PLUGIN)
    return why
