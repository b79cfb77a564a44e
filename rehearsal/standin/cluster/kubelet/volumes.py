"""A pod's volumes as folders of the node, and what of them a container mounts."""

import base64
from pathlib import Path
from typing import Any

from .. import paths
from ..cluster import Cluster

Object = dict[str, Any]


class MountError(Exception):
    pass


def pod_folder(pod: Object) -> Path:
    return paths.on_node(f"{paths.KUBELET}/pods/{pod['metadata']['uid']}")


def sources(cluster: Cluster, pod: Object) -> dict[str, Path]:
    """Volume name -> folder or file on the node."""
    found = {}
    for volume in pod["spec"].get("volumes") or []:
        found[volume["name"]] = _source(cluster, pod, volume)
    return found


def _source(cluster: Cluster, pod: Object, volume: Object) -> Path:
    namespace = pod["metadata"]["namespace"]
    if "hostPath" in volume:
        path = paths.on_node(volume["hostPath"]["path"])
        kind = volume["hostPath"].get("type") or ""
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        if kind in ("Directory", "File") and not path.exists():
            text = f'MountVolume.SetUp failed for volume "{volume["name"]}" : hostPath type check failed: '
            raise MountError(f"{text}{volume['hostPath']['path']} is not a {kind.lower()}")
        return path
    for kind, plural in (("configMap", "configmaps"), ("secret", "secrets")):
        if kind in volume:
            name = volume[kind].get("name") or volume[kind].get("secretName")
            obj = cluster.store.get(plural, namespace, name)
            if obj is None and not volume[kind].get("optional"):
                singular = plural.removesuffix("s")
                text = (
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" : {singular} "{name}" not found'
                )
                raise MountError(text)
            target = pod_folder(pod) / "volumes" / volume["name"]
            _write(target, obj or {}, volume[kind].get("items"), kind == "secret")
            return target
    target = pod_folder(pod) / "volumes" / volume["name"]
    target.mkdir(parents=True, exist_ok=True)
    return target


def _write(target: Path, obj: Object, items: list[Object] | None, encoded: bool) -> None:
    target.mkdir(parents=True, exist_ok=True)
    names = {i["key"]: i["path"] for i in items} if items else None
    for key, value in (obj.get("data") or {}).items():
        if names is not None and key not in names:
            continue
        path = target / (names[key] if names else key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(value) if encoded else str(value).encode())


def check_keys(cluster: Cluster, pod: Object, container: Object) -> None:
    """A subPath of a ConfigMap that lacks this key cannot be mounted."""
    volumes = {v["name"]: v for v in pod["spec"].get("volumes") or []}
    for mount in container.get("volumeMounts") or []:
        volume = volumes.get(mount["name"], {})
        if mount.get("subPath") and "configMap" in volume:
            obj = (
                cluster.store.get("configmaps", pod["metadata"]["namespace"], volume["configMap"]["name"])
                or {}
            )
            if mount["subPath"] not in (obj.get("data") or {}):
                text = f'failed to prepare subPath for volumeMount "{mount["name"]}" of container "{container["name"]}"'
                raise MountError(text)


def mounts(found: dict[str, Path], container: Object) -> list[tuple[str, str, bool]]:
    binds = []
    for mount in container.get("volumeMounts") or []:
        source = found.get(mount["name"])
        if source is None:
            continue
        if mount.get("subPath"):
            source = source / mount["subPath"]
        binds.append((str(source), mount["mountPath"], bool(mount.get("readOnly"))))
    return binds
