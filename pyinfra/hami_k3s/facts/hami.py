"""HAMi on a cluster as it really is: plugin, scheduler, webhook, registration. One command for all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pyinfra.api import StringCommand
from typing_extensions import override

from hami_k3s.facts import api, batch, nvidia
from hami_k3s.facts.host import MANIFESTS, is_provider
from hami_k3s.facts.kubernetes import DRY_RUN_POD, Node, answer_items, node
from hami_k3s.facts.shared import Shared
from hami_k3s.isolation.evidence import Provider, Providers, Webhook

REGISTER = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"
WEBHOOK_NAME = "vgpu.hami.io"


@dataclass(frozen=True)
class HamiPod:
    """A pod of the device plugin or the scheduler. `waiting`: reasons of containers that do not run. `pulled`: container
    -> the image that the node has for it, by digest. `leaving`: it is being deleted."""

    name: str
    component: str
    node: str | None
    phase: str
    ready: bool
    images: dict[str, str] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    pulled: dict[str, str] = field(default_factory=dict)
    leaving: bool = False


@dataclass(frozen=True)
class HamiState:
    """Parts that could not be read are None; `errors` says why. `nodes` are all nodes of the cluster by name."""

    server_version: str | None = None
    nodes: dict[str, Node] | None = None
    own_node: str | None = None
    pods: tuple[HamiPod, ...] | None = None
    providers: Providers | None = None
    webhook: Webhook | None = None
    dry_run_answer: str = ""
    nvidia: nvidia.NvidiaState = field(default_factory=nvidia.NvidiaState)
    errors: dict[str, str] = field(default_factory=dict)


def fullname(release: str) -> str:
    """How the chart names its objects for a release."""
    return release if "hami" in release else f"{release}-hami"


PROBES = {"hostname": "hostname | tr A-Z a-z", "manifests": MANIFESTS, **nvidia.PROBES}
DRY_RUN = {"dryrun": ("/api/v1/namespaces/default/pods?dryRun=All", DRY_RUN_POD)}


def paths(release: str, namespace: str) -> dict[str, str]:
    """What the API is asked about one release of HAMi."""
    where = f"namespaces/{quote(namespace)}"
    components = "app.kubernetes.io/component in (hami-scheduler,hami-device-plugin)"
    service = f"kubernetes.io/service-name={fullname(release)}-scheduler"
    return {
        "version": "/version",
        "nodes": "/api/v1/nodes",
        "daemonsets": "/apis/apps/v1/daemonsets",
        "policy": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com",
        "pods": api.listing(f"/api/v1/{where}/pods", components),
        "slices": api.listing(f"/apis/discovery.k8s.io/v1/{where}/endpointslices", service),
        "webhooks": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    }


def _pod(item: dict[str, Any]) -> HamiPod:
    status = item.get("status", {})
    containers = status.get("containerStatuses") or []
    waiting = [
        f"{one['name']}: {one['state']['waiting'].get('reason', 'waiting')}"
        for one in containers
        if one.get("state", {}).get("waiting")
    ]
    return HamiPod(
        name=item["metadata"]["name"],
        component=item["metadata"].get("labels", {}).get("app.kubernetes.io/component", ""),
        node=item["spec"].get("nodeName"),
        phase=status.get("phase", "Unknown"),
        ready=bool(containers) and all(one.get("ready") for one in containers),
        images={one["name"]: one["image"] for one in item["spec"].get("containers", [])},
        waiting=tuple(waiting),
        pulled={one["name"]: one.get("imageID", "") for one in containers},
        leaving="deletionTimestamp" in item["metadata"],
    )


def _providers(daemonsets: list[dict[str, Any]], policy: bool, manifests: str) -> Providers:
    others = [Provider("", path, kind="Manifest") for path in manifests.split()]
    for item in daemonsets:
        meta = item["metadata"]
        images = " ".join(c.get("image", "") for c in item["spec"]["template"]["spec"].get("containers", []))
        if is_provider(meta["name"]) or is_provider(images):
            others.append(Provider(meta["namespace"], meta["name"], images))
    return Providers(tuple(others), policy)


def _spec(answer: batch.Answer) -> dict[str, Any]:
    spec = batch.mapping(answer.text).get("spec")
    return spec if isinstance(spec, dict) else {}


def _webhook(
    configurations: list[dict[str, Any]], slices: list[dict[str, Any]], answer: batch.Answer
) -> Webhook | None:
    """None when there is no configuration of HAMi's webhook."""
    entries = [
        hook
        for item in configurations
        for hook in item.get("webhooks", [])
        if hook.get("name") == WEBHOOK_NAME
    ]
    if not entries:
        return None
    ready = [
        address
        for item in slices
        for endpoint in item.get("endpoints") or []
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint.get("addresses", [])
    ]
    return Webhook(
        endpoints=tuple(ready),
        dry_run_scheduler=_spec(answer).get("schedulerName") if answer.status == 0 else None,
        ca_bundle=bool(entries[0].get("clientConfig", {}).get("caBundle")),
        failure_policy=entries[0].get("failurePolicy", ""),
    )


def parse(output: list[str]) -> HamiState:
    """HamiState from the answers to PROBES, `paths` and DRY_RUN."""
    answers = batch.parse(output)
    errors = {}
    for name in ("nodes", "daemonsets", "pods", "slices", "webhooks", "dryrun"):
        answer = answers.get(name, batch.NOTHING)
        if answer.status != 0:
            errors[name] = api.reason(answer)
    nodes = answer_items(answers, "nodes")
    pods = answer_items(answers, "pods")
    daemonsets = answer_items(answers, "daemonsets")
    slices, configurations = answer_items(answers, "slices"), answer_items(answers, "webhooks")
    dryrun = answers.get("dryrun", batch.NOTHING)
    webhook = None
    if slices is not None and configurations is not None:
        webhook = _webhook(configurations, slices, dryrun)
        if webhook is None:
            errors["webhooks"] = f"there is no webhook {WEBHOOK_NAME}: HAMi is not installed"
    return HamiState(
        server_version=api.server_version(answers),
        nodes={item["metadata"]["name"]: node(item) for item in nodes} if nodes is not None else None,
        own_node=answers.get("hostname", batch.NOTHING).value,
        pods=tuple(map(_pod, pods)) if pods is not None else None,
        providers=_providers(
            daemonsets,
            answers.get("policy", batch.NOTHING).status == 0,
            answers.get("manifests", batch.NOTHING).text,
        )
        if daemonsets is not None
        else None,
        webhook=webhook,
        dry_run_answer=str(_spec(dryrun).get("schedulerName")) if dryrun.status == 0 else api.reason(dryrun),
        nvidia=nvidia.state(answers),
        errors=errors,
    )


class Hami(Shared[HamiState]):
    """
    Returns a `HamiState`; on a host without a cluster every part is None.

    + release: the Helm release
    + namespace: its namespace

    .. code:: python

        HamiState(server_version="v1.36.2+k3s1", nodes={"gpu-1": Node(...)}, own_node="gpu-1", pods=(HamiPod(...),), ...)
    """

    default = HamiState

    @override
    def command(self, release: str, namespace: str) -> StringCommand:
        return self.both(release=release, namespace=namespace)

    @override
    def own(self, release: str, namespace: str) -> str:
        return batch.script(PROBES)

    @override
    def asked(self, release: str, namespace: str) -> str:
        return api.script(paths(release, namespace), DRY_RUN)

    @override
    def process(self, output: list[str]) -> HamiState:
        return parse(output)


def split_count(values: dict[str, Any]) -> int:
    """Pods that may share one card, from the release's user values (the chart's default is 10)."""
    return int(values.get("devicePlugin", {}).get("deviceSplitCount", 10))


def memory_scaling(values: dict[str, Any]) -> float:
    """What HAMi multiplies a card's memory with, from the release's user values (the chart's default is 1)."""
    return float(values.get("devicePlugin", {}).get("deviceMemoryScaling", 1))
