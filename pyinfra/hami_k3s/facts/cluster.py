"""What a running k3s says that would be in the way, read in one command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from pyinfra.api import StringCommand
from typing_extensions import override

from hami_k3s.facts import api, batch
from hami_k3s.facts.kubernetes import answer_items
from hami_k3s.facts.machine import ROOT
from hami_k3s.facts.shared import Shared


@dataclass(frozen=True)
class Installed:
    """A HAMi scheduler in the cluster: its namespace, Helm release and chart (`hami-2.9.0`)."""

    namespace: str
    release: str
    chart: str


@dataclass(frozen=True)
class Revision:
    """The newest revision of a Helm release that is not superseded."""

    namespace: str
    release: str
    status: str
    number: int


@dataclass(frozen=True)
class ClusterState:
    """Unknown parts are None. `providers`: what else serves nvidia.com/gpu, one line each. `annotations`: HAMi's, of
    this host's own node (empty without such a node). `now`: the host's clock, seconds since 1970."""

    answers: bool = False
    providers: tuple[str, ...] | None = None
    hami: tuple[Installed, ...] | None = None
    releases: tuple[Revision, ...] | None = None
    annotations: dict[str, str] | None = None
    now: float | None = None


PROBES = {"hostname": "hostname | tr A-Z a-z", "now": "date +%s"}
PATHS = {
    "daemonsets": "/apis/apps/v1/daemonsets",
    "policy": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com",
    "schedulers": api.listing("/apis/apps/v1/deployments", "app.kubernetes.io/component=hami-scheduler"),
    "releases": api.listing("/api/v1/secrets", "owner=helm,status notin (superseded)"),
    "nodes": "/api/v1/nodes",
}
POLICY = "CRD clusterpolicies.nvidia.com"


def is_provider(text: str) -> bool:
    """Does a DaemonSet's name or image belong to NVIDIA's own device plugin or the GPU Operator?"""
    return any(word in text for word in ("nvidia-device-plugin", "k8s-device-plugin", "gpu-operator"))


def _meta(item: dict[str, Any]) -> dict[str, Any]:
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}


def _words(item: dict[str, Any], part: str) -> dict[str, str]:
    """Labels or annotations."""
    found = _meta(item).get(part)
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _images(item: dict[str, Any]) -> str:
    """Images of a DaemonSet's containers."""
    try:
        return " ".join(str(one["image"]) for one in item["spec"]["template"]["spec"]["containers"])
    except (KeyError, TypeError):
        return ""


def _providers(daemonsets: list[dict[str, Any]], policy: batch.Answer) -> tuple[str, ...]:
    lines = [f"{_meta(one).get('namespace')}/{_meta(one).get('name')} ({_images(one)})" for one in daemonsets]
    found = [f"DaemonSet {line}" for line in lines if is_provider(line)]
    return (*found, *([POLICY] if policy.status == 0 else []))


def _newest(secrets: list[dict[str, Any]]) -> tuple[Revision, ...]:
    newest: dict[tuple[str, str], Revision] = {}
    for item in secrets:
        labels, namespace = _words(item, "labels"), str(_meta(item).get("namespace", ""))
        if labels.get("version", "").isdecimal():
            one = Revision(
                namespace, labels.get("name", ""), labels.get("status", ""), int(labels["version"])
            )
            if one.number >= newest.get((namespace, one.release), one).number:
                newest[namespace, one.release] = one
    return tuple(newest.values())


def parse(output: list[str]) -> ClusterState:
    """ClusterState from the answers to PROBES and PATHS."""
    answers = batch.parse(output)
    daemonsets, schedulers = answer_items(answers, "daemonsets"), answer_items(answers, "schedulers")
    secrets, nodes = answer_items(answers, "releases"), answer_items(answers, "nodes")
    own = answers.get("hostname", batch.NOTHING).value
    return ClusterState(
        answers=daemonsets is not None,
        providers=_providers(daemonsets, answers.get("policy", batch.NOTHING))
        if daemonsets is not None
        else None,
        hami=tuple(
            Installed(
                str(_meta(one).get("namespace", "")),
                _words(one, "labels").get("app.kubernetes.io/instance", ""),
                _words(one, "labels").get("helm.sh/chart", ""),
            )
            for one in schedulers
        )
        if schedulers is not None
        else None,
        releases=_newest(secrets) if secrets is not None else None,
        annotations={
            key: value
            for one in nodes
            if _meta(one).get("name") == own
            for key, value in _words(one, "annotations").items()
            if key.startswith("hami.io/")
        }
        if nodes is not None
        else None,
        now=answers.get("now", batch.NOTHING).number,
    )


class Cluster(Shared[ClusterState]):
    """
    Returns a `ClusterState`; read it with `_sudo=False`, as `Host`.

    .. code:: python

        ClusterState(answers=True, providers=(), hami=(Installed("kube-system", "hami", "hami-2.9.0"),), ...)
    """

    default = ClusterState

    @override
    def command(self) -> StringCommand:
        return self.both()

    @override
    def own(self) -> str:
        return batch.script(PROBES)

    @override
    def asked(self) -> str:
        return f"{ROOT} sh -c {shlex.quote(api.script(PATHS))} 2>/dev/null; true"

    @override
    def process(self, output: list[str]) -> ClusterState:
        return parse(output)
