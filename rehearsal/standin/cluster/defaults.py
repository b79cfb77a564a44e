"""What the API server fills in when it is left out."""

import copy
import random
import string
from typing import Any

from .resources import Resource
from .store import Store

Object = dict[str, Any]
EXTENDED = "nvidia.com/"


def suffix(length: int = 5) -> str:
    return "".join(random.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(length))


def fill(resource: Resource, obj: Object, store: Store) -> None:
    if resource.key == "pods":
        pod_spec(obj["spec"])
        obj["spec"].setdefault("serviceAccountName", "default")
        obj["spec"].setdefault("serviceAccount", obj["spec"]["serviceAccountName"])
        obj["spec"].setdefault("priority", 0)
        obj["spec"].setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("status", {})
        obj["status"].setdefault("phase", "Pending")
        obj["status"].setdefault("qosClass", _qos(obj["spec"]))
    elif resource.key in ("apps/deployments", "apps/replicasets", "apps/daemonsets", "apps/statefulsets"):
        _workload(resource, obj["spec"])
    elif resource.key == "batch/jobs":
        _job(obj)
    elif resource.key == "services":
        _service(obj["spec"], store)
    elif resource.key == "namespaces":
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj.setdefault("status", {"phase": "Active"})
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    elif resource.key == "secrets":
        _secret(obj)
    elif resource.key.endswith("webhookconfigurations"):
        for hook in obj.get("webhooks") or []:
            for key, value in (
                ("failurePolicy", "Fail"),
                ("matchPolicy", "Equivalent"),
                ("timeoutSeconds", 10),
            ):
                hook.setdefault(key, value)
            hook.setdefault("reinvocationPolicy", "Never")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            if "service" in hook.get("clientConfig", {}):
                hook["clientConfig"]["service"].setdefault("port", 443)


def _secret(obj: Object) -> None:
    import base64

    obj.setdefault("type", "Opaque")
    for key, value in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def pod_spec(spec: Object) -> None:
    for key, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
        ("securityContext", {}),
        ("enableServiceLinks", True),
    ):
        spec.setdefault(key, copy.deepcopy(value))
    for container in spec.get("containers") or []:
        _container(container)
    for container in spec.get("initContainers") or []:
        _container(container)


def pod_tolerations(spec: Object) -> None:
    """What admission adds to real pods (not to templates)."""
    have = {t.get("key") for t in spec.setdefault("tolerations", [])}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if key not in have:
            spec["tolerations"].append(
                {"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}
            )


def _container(container: Object) -> None:
    image = container.get("image", "")
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    container.setdefault(
        "imagePullPolicy", "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
    )
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    for name, amount in (resources.get("limits") or {}).items():
        resources["limits"][name] = str(amount)
        resources.setdefault("requests", {}).setdefault(name, str(amount))
    for name, amount in (resources.get("requests") or {}).items():
        resources["requests"][name] = str(amount)
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")


def _qos(spec: Object) -> str:
    sets = [c.get("resources", {}) for c in spec.get("containers", [])]
    plain = [{k: v for part in s.values() for k, v in part.items() if k in ("cpu", "memory")} for s in sets]
    if not any(plain):
        return "BestEffort"
    full = all(
        {"cpu", "memory"} <= set(s.get("limits") or {}) and s["limits"] == s.get("requests") for s in sets
    )
    return "Guaranteed" if full else "Burstable"


def _workload(resource: Resource, spec: Object) -> None:
    if resource.kind != "DaemonSet":
        spec.setdefault("replicas", 1)
    if resource.kind == "Deployment":
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxSurge", "25%")
            rolling.setdefault("maxUnavailable", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
    if resource.kind == "DaemonSet":
        spec.setdefault("updateStrategy", {}).setdefault("type", "RollingUpdate")
        if spec["updateStrategy"]["type"] == "RollingUpdate":
            spec["updateStrategy"].setdefault("rollingUpdate", {"maxSurge": 0, "maxUnavailable": 1})
        spec.setdefault("revisionHistoryLimit", 10)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_spec(template.setdefault("spec", {}))


def _job(obj: Object) -> None:
    spec = obj["spec"]
    for key, value in (
        ("parallelism", 1),
        ("completions", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
    ):
        spec.setdefault(key, value)
    spec.setdefault("suspend", False)
    spec.setdefault("template", {}).setdefault("metadata", {})
    pod_spec(spec["template"].setdefault("spec", {}))


def job_selector(obj: Object) -> None:
    """After the uid is known: the labels that tie pods to their Job."""
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    labels |= {"controller-uid": uid, "job-name": name}
    obj["spec"].setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
    meta = obj["spec"]["template"]["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), **labels}


def _service(spec: Object, store: Store) -> None:
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    taken_ips = {s["spec"].get("clusterIP") for s in store.select("services")}
    if "clusterIP" not in spec and spec["type"] != "ExternalName":
        spec["clusterIP"] = next(
            ip
            for ip in (f"10.43.{random.randrange(1, 255)}.{random.randrange(2, 255)}" for _ in range(999))
            if ip not in taken_ips
        )
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    taken = {p.get("nodePort") for s in store.select("services") for p in s["spec"].get("ports", [])}
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
        if spec["type"] in ("NodePort", "LoadBalancer"):
            if "nodePort" not in port:
                port["nodePort"] = next(
                    n for n in iter(lambda: random.randrange(30000, 32768), None) if n not in taken
                )
                taken.add(port["nodePort"])
        else:
            port.pop("nodePort", None)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    else:
        spec.pop("externalTrafficPolicy", None)


def is_name_text(text: str) -> bool:
    return bool(text) and all(c in string.ascii_lowercase + string.digits + "-." for c in text)
