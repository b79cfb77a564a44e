"""HAMi on a cluster: kubectl's objects in, plain data out."""

import json
from typing import Any

import pytest

from hami_k3s.facts.hami import Hami, HamiState, fullname, memory_scaling, parse, split_count
from hami_k3s.facts.kubernetes import DRY_RUN_POD, items
from tests.recorded.lab import recorded
from tests.unit.facts.answers import answered
from tests.unit.facts.api_server import Api
from tests.unit.facts.host_tools import Bin

REGISTERED = recorded("lab/node-nvidia-register.json").strip()
NODE = {
    "kind": "Node",
    "metadata": {
        "name": "gpu-1",
        "labels": {"gpu": "on"},
        "annotations": {"hami.io/node-nvidia-register": REGISTERED},
    },
    "status": {
        "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        "allocatable": {"nvidia.com/gpu": "10"},
        "nodeInfo": {"kubeletVersion": "v1.36.2+k3s1"},
    },
}
SCHEDULER = {
    "metadata": {"name": "hami-scheduler-x", "labels": {"app.kubernetes.io/component": "hami-scheduler"}},
    "spec": {
        "nodeName": "gpu-1",
        "containers": [
            {"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.36.2"},
            {"name": "vgpu-scheduler-extender", "image": "docker.io/projecthami/hami:v2.9.0"},
        ],
    },
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {"name": "kube-scheduler", "ready": True, "state": {"running": {}}},
            {
                "name": "vgpu-scheduler-extender",
                "ready": False,
                "state": {"waiting": {"reason": "ImagePullBackOff"}},
            },
        ],
    },
}
WEBHOOK = {
    "metadata": {"name": "hami-webhook"},
    "webhooks": [
        {"name": "vgpu.hami.io", "failurePolicy": "Ignore", "clientConfig": {"caBundle": "LS0t"}},
    ],
}
OTHER_WEBHOOK = {"metadata": {"name": "cert-manager"}, "webhooks": [{"name": "webhook.cert-manager.io"}]}
SLICE = {
    "endpoints": [
        {"addresses": ["10.42.0.9"], "conditions": {"ready": True}},
        {"addresses": ["10.42.0.8"], "conditions": {"ready": False}},
    ]
}


def listed(*objects: Any) -> dict[str, Any]:
    return {"kind": "List", "items": list(objects)}


PROBES = {
    "version": {"gitVersion": "v1.36.2+k3s1"},
    "hostname": "gpu-1",
    "nodes": listed(NODE),
    "daemonsets": listed(),
    "policy": ({"kind": "Status", "message": "not found"}, 44),
    "manifests": ("", 1),
    "pods": listed(SCHEDULER),
    "slices": listed(SLICE),
    "webhooks": listed(OTHER_WEBHOOK, WEBHOOK),
    "dryrun": {"kind": "Pod", "spec": {"schedulerName": "hami-scheduler"}},
}


def hami(**changes: Any) -> HamiState:
    return parse(answered({**PROBES, **changes}))


def test_a_cluster() -> None:
    now = hami()
    assert (now.server_version, now.own_node, now.errors) == ("v1.36.2+k3s1", "gpu-1", {})
    assert now.nodes is not None
    node = now.nodes["gpu-1"]
    assert (node.ready, node.labels, node.allocatable) == (True, {"gpu": "on"}, {"nvidia.com/gpu": "10"})
    assert node.annotations["hami.io/node-nvidia-register"] == REGISTERED
    assert now.pods is not None
    (pod,) = now.pods
    assert (pod.component, pod.phase, pod.ready) == ("hami-scheduler", "Running", False)
    assert pod.images["kube-scheduler"] == "registry.k8s.io/kube-scheduler:v1.36.2"
    assert pod.waiting == ("vgpu-scheduler-extender: ImagePullBackOff",)


def test_pod_that_is_not_scheduled() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}}
    now = hami(pods=listed(pod))
    assert now.pods is not None
    assert (now.pods[0].node, now.pods[0].ready, now.pods[0].component) == (None, False, "")


def test_webhook_counts_ready_endpoints_only() -> None:
    webhook = hami().webhook
    assert webhook is not None
    assert (webhook.endpoints, webhook.dry_run_scheduler) == (("10.42.0.9",), "hami-scheduler")
    assert (webhook.ca_bundle, webhook.failure_policy) == (True, "Ignore")


@pytest.mark.parametrize("slices", [listed(), listed({"endpoints": None}), listed({"endpoints": []})])
def test_webhook_without_endpoints(slices: object) -> None:
    webhook = hami(slices=slices).webhook
    assert webhook is not None
    assert webhook.endpoints == ()


def test_webhook_of_hami_is_not_there() -> None:
    now = hami(webhooks=listed(OTHER_WEBHOOK))
    assert now.webhook is None
    assert now.errors["webhooks"] == "there is no webhook vgpu.hami.io: HAMi is not installed"


def test_dry_run_that_is_refused_keeps_its_reason() -> None:
    now = hami(dryrun=({"kind": "Status", "message": "pods is forbidden: exceeded quota"}, 22))
    assert now.webhook is not None
    assert now.webhook.dry_run_scheduler is None
    assert now.dry_run_answer == "pods is forbidden: exceeded quota"
    assert now.errors["dryrun"] == now.dry_run_answer


def test_other_providers() -> None:
    def daemonset(namespace: str, name: str, image: str) -> dict[str, Any]:
        spec = {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
        return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}

    now = hami(
        daemonsets=listed(
            daemonset("kube-system", "hami-device-plugin", "docker.io/projecthami/hami:v2.9.0"),
            daemonset("gpu", "renamed", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"),
        ),
        policy={"kind": "CustomResourceDefinition"},
        manifests="/var/lib/rancher/k3s/server/manifests/x.yaml",
    )
    assert now.providers is not None
    assert now.providers.cluster_policy_crd
    assert [(one.kind, one.namespace, one.name) for one in now.providers.others] == [
        ("Manifest", "", "/var/lib/rancher/k3s/server/manifests/x.yaml"),
        ("DaemonSet", "gpu", "renamed"),
    ]


def test_parts_that_do_not_answer_are_unknown_not_empty() -> None:
    refused = ("", 22)
    now = hami(daemonsets=refused, pods=refused, webhooks=refused)
    assert (now.providers, now.pods, now.webhook) == (None, None, None)
    assert now.errors["pods"] == "the API server does not answer"


@pytest.mark.parametrize(("release", "name"), [("hami", "hami"), ("my-hami", "my-hami"), ("gpu", "gpu-hami")])
def test_fullname_follows_the_chart(release: str, name: str) -> None:
    assert fullname(release) == name


def test_values_that_change_what_is_expected() -> None:
    values = {"devicePlugin": {"deviceSplitCount": 4, "deviceMemoryScaling": 1.5}}
    assert (split_count(values), memory_scaling(values)) == (4, 1.5)
    assert (split_count({}), memory_scaling({"devicePlugin": {}})) == (10, 1.0)


def test_items() -> None:
    assert items(json.dumps(NODE)) == [NODE]
    assert items(json.dumps(listed(NODE, NODE))) == [NODE, NODE]
    assert items("") == items("[]") == items("null") == items("Error") == items("{}") == []


def test_through_the_real_script(host: Bin) -> None:
    """The questions arrive at the API as they are meant, selectors and JSON included."""
    api = Api(host)
    for path in ("/api/v1/nodes", "/apis/apps/v1/daemonsets"):
        api.answers[path] = listed()
    where = "/api/v1/namespaces/kube-system/pods?labelSelector="
    api.answers[where + "app.kubernetes.io/component%20in%20%28hami-scheduler%2Chami-device-plugin%29"] = (
        listed()
    )
    slices = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices?labelSelector="
    api.answers[slices + "kubernetes.io/service-name%3Dhami-scheduler"] = listed(SLICE)
    api.answers["/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"] = listed(WEBHOOK)
    api.answers["/version"] = {"gitVersion": "v1.36.2+k3s1"}
    pod = {"kind": "Pod", "spec": {"schedulerName": "hami-scheduler"}}
    api.answers["/api/v1/namespaces/default/pods?dryRun=All"] = pod
    now = api.read(Hami, release="hami", namespace="kube-system")
    assert now.errors == {}
    assert (now.nodes, now.pods, now.server_version) == ({}, (), "v1.36.2+k3s1")
    assert not now.providers.cluster_policy_crd
    assert (now.webhook.endpoints, now.webhook.dry_run_scheduler) == (("10.42.0.9",), "hami-scheduler")
    assert api.posted() == DRY_RUN_POD
