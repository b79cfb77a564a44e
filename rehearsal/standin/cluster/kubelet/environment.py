"""What a container's process is started with: environment, command, files."""

import base64
import re
from typing import Any

from .. import machine, paths
from ..cluster import Cluster
from ..selectors import field_value
from .images import Image

Object = dict[str, Any]


class ConfigError(Exception):
    """CreateContainerConfigError: what the spec refers to is not there."""


def build(
    cluster: Cluster, pod: Object, container: Object, image: Image, devices: dict[str, str]
) -> dict[str, str]:
    """Later wins: image, cluster, device plugin, the pod's own spec."""
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        **image.env,
    }
    if machine.fault("no-request-sees-card") is not None and pod["metadata"]["namespace"] != "kube-system":
        env["NVIDIA_VISIBLE_DEVICES"] = "all"
    env |= {"HOSTNAME": pod["metadata"]["name"]}
    host, port = "10.43.0.1", "443"
    env |= {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_PORT": f"tcp://{host}:{port}",
    }
    env |= devices
    namespace = pod["metadata"]["namespace"]
    for source in container.get("envFrom") or []:
        for kind, plural in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if kind in source:
                found = _object(cluster, plural, namespace, source[kind])
                for key in (found or {}).get("data") or {}:
                    env[source.get("prefix", "") + key] = _value(found, plural, key)
    for entry in container.get("env") or []:
        value = entry.get("value")
        if value is None and "valueFrom" in entry:
            value = _from(cluster, pod, entry["valueFrom"])
        if value is not None:
            env[entry["name"]] = expand(str(value), env)
        elif "valueFrom" not in entry:
            env[entry["name"]] = ""
    return env


def _object(cluster: Cluster, plural: str, namespace: str, reference: Object) -> Object | None:
    found = cluster.store.get(plural, namespace, reference["name"])
    if found is None and not reference.get("optional"):
        raise ConfigError(f'{plural.removesuffix("s")} "{reference["name"]}" not found')
    return found


def _value(obj: Object | None, plural: str, key: str) -> str:
    value = ((obj or {}).get("data") or {}).get(key, "")
    return base64.b64decode(value).decode() if plural == "secrets" else str(value)


def _from(cluster: Cluster, pod: Object, source: Object) -> str | None:
    if "fieldRef" in source:
        path = source["fieldRef"]["fieldPath"]
        indexed = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
        if indexed:
            return (pod["metadata"].get(indexed[1]) or {}).get(indexed[2], "")
        special = {"status.hostIP": cluster.address, "spec.nodeName": cluster.node}
        return special.get(path) or field_value(pod, path)
    for kind, plural in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if kind in source:
            found = _object(cluster, plural, pod["metadata"]["namespace"], source[kind])
            key = source[kind]["key"]
            if (
                found is not None
                and key not in (found.get("data") or {})
                and not source[kind].get("optional")
            ):
                raise ConfigError(f"couldn't find key {key} in {plural} {source[kind]['name']}")
            return _value(found, plural, key) if found else None
    return None


def expand(text: str, env: dict[str, str]) -> str:
    """Kubernetes' `$(NAME)`; unknown names stay as they are."""
    return re.sub(r"\$\(([A-Za-z_][\w.-]*)\)", lambda m: env.get(m[1], m[0]), text)


def command(container: Object, image: Image, env: dict[str, str]) -> list[str]:
    given, more = container.get("command") or [], container.get("args") or []
    return [expand(str(w), env) for w in ([*given, *more] or image.command)]


def files(cluster: Cluster, pod: Object) -> dict[str, str]:
    name = pod["metadata"]["name"]
    hosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
    return {
        "/etc/hostname": f"{name}\n",
        "/etc/hosts": f"{hosts}{pod.get('status', {}).get('podIP', '127.0.0.1')}\t{name}\n",
        "/etc/resolv.conf": "search default.svc.cluster.local svc.cluster.local\nnameserver 10.43.0.10\n",
    }


def extras(image: Image) -> tuple[dict[str, str], list[tuple[str, str, bool]]]:
    """Links and mounts that make the base tree look like that image."""
    links, binds = {}, []
    if "/python:" in image.name:
        links = {f"/usr/local/bin/{n}": "/usr/bin/python3" for n in ("python3", "python")}
    if "/cuda:" in image.name and "-devel" in image.name:
        for name in ("nvcc", "nvcc-probe.py"):
            source = paths.on_node(f"/usr/lib/rehearsal/{name}")
            if source.exists():
                binds.append((str(source), f"/usr/local/cuda/bin/{name}", True))
    return links, binds
