"""This machine as a Node: registration, labels, conditions and the heartbeat."""

import os
import re
from pathlib import Path
from typing import Any

from . import clock, containerd, machine, paths
from .cluster import Cluster, condition, set_condition

Object = dict[str, Any]


def register(cluster: Cluster, settings: Object) -> None:
    """Labels are merged in at every start and never removed; taints count at registration only."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "k3s",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": cluster.node,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "k3s",
        **{f"node-role.kubernetes.io/{role}": "true" for role in cluster.roles},
    }
    for entry in settings.get("node-label") or []:
        key, _, value = entry.partition("=")
        labels[key] = value
    taints = []
    for entry in settings.get("node-taint") or []:
        rest, _, effect = entry.rpartition(":")
        key, _, value = rest.partition("=")
        taints.append({"key": key, "value": value, "effect": effect})
    if cluster.store.get("nodes", "", cluster.node) is None:
        annotations = {"k3s.io/hostname": cluster.node, "k3s.io/internal-ip": cluster.address}
        node: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": cluster.node, "labels": labels, "annotations": annotations},
            "spec": {"providerID": f"k3s://{cluster.node}"},
        }
        if taints:
            node["spec"]["taints"] = taints
        cluster.store.create("nodes", node)
    cluster.store.modify("nodes", "", cluster.node, lambda o: _fill(cluster, o, labels))
    _renew(cluster)


OWN_DOMAINS = re.compile(r"(^|\.)(kubernetes|k8s)\.io$")
MAY_BE_SET = ("kubelet.kubernetes.io", "node.kubernetes.io")
SINGLY = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/zone")
SINGLY += ("topology.kubernetes.io/region",)


def forbidden_labels(settings: Object) -> list[str]:
    """Labels of Kubernetes' own domains that a kubelet may not give its node; it does not start with them."""
    found = []
    for entry in settings.get("node-label") or []:
        key = entry.partition("=")[0]
        domain = key.rpartition("/")[0]
        if OWN_DOMAINS.search(domain) and not domain.endswith(MAY_BE_SET) and key not in SINGLY:
            found.append(key)
    return sorted(found)


def _fill(cluster: Cluster, node: Object, labels: Object) -> None:
    node["metadata"].setdefault("labels", {}).update(labels)
    status = node.setdefault("status", {})
    memory = next(
        (x.split()[1] for x in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in x), "0"
    )
    plain = {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory}Ki",
        "ephemeral-storage": "259969752Ki",
        "hugepages-2Mi": "0",
        "pods": "110",
    }
    kept = {
        k: "0" for k in status.get("allocatable") or {} if "/" in k
    }  # plugins register anew with each kubelet
    status["capacity"] = {**kept, **plain}
    status["allocatable"] = {**kept, **plain}
    status["addresses"] = [
        {"type": "InternalIP", "address": cluster.address},
        {"type": "Hostname", "address": cluster.node},
    ]
    status["nodeInfo"] = {
        "architecture": "amd64",
        "bootID": machine.boot_id(),
        "containerRuntimeVersion": f"containerd://{containerd.release(cluster.version)}",
        "kernelVersion": machine.kernel(),
        "kubeProxyVersion": "",
        "kubeletVersion": cluster.version,
        "machineID": _machine_id(),
        "operatingSystem": "linux",
        "osImage": machine.os_image(),
        "systemUUID": machine.boot_id(),
    }
    status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": paths.KUBELET_PORT}}
    status.setdefault("conditions", [])
    _conditions(status, ready=False)


def _machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


def _conditions(status: Object, ready: bool) -> None:
    good = ("KubeletReady", "kubelet is posting ready status")
    bad = (
        "KubeletNotReady",
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
    )
    for kind, value, reason, text in (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True" if ready else "False", *(good if ready else bad)),
    ):
        new = {**condition(kind, value, reason, text), "lastHeartbeatTime": clock.stamp()}
        status["conditions"] = set_condition(status["conditions"], new)


def beat(cluster: Cluster) -> None:
    ready = machine.fault("node-not-ready") is None
    cluster.store.modify(
        "nodes",
        "",
        cluster.node,
        lambda o: _conditions(o["status"], ready),
    )
    _renew(cluster)


def _renew(cluster: Cluster) -> None:
    key = "coordination.k8s.io/leases"
    if cluster.store.modify(key, "kube-node-lease", cluster.node, renew) is None:
        cluster.store.create(key, lease("kube-node-lease", cluster.node, cluster.node))


def renew(obj: Object) -> None:
    obj["spec"]["renewTime"] = clock.micro()


def lease(namespace: str, name: str, holder: str) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 40, "renewTime": clock.micro()},
    }
