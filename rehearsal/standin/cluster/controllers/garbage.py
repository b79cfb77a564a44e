"""What removes objects: owners that are gone, foreground deletions, namespaces that end."""

from typing import Any

from ..cluster import Cluster, is_leaving

Object = dict[str, Any]


def sync(cluster: Cluster) -> None:
    uids = {obj["metadata"].get("uid") for _, obj in cluster.store.all()}
    leaving = {
        obj["metadata"]["uid"]
        for _, obj in cluster.store.all()
        if is_leaving(obj) and "foregroundDeletion" in (obj["metadata"].get("finalizers") or [])
    }
    held: set[str] = set()
    for key, obj in cluster.store.all():
        owners = obj["metadata"].get("ownerReferences") or []
        if not owners or key == "events":
            continue
        held |= {o["uid"] for o in owners}
        if all(o["uid"] not in uids or o["uid"] in leaving for o in owners) and not is_leaving(obj):
            _delete(cluster, key, obj, "Foreground" if owners[0]["uid"] in leaving else "Background")
    for key, obj in cluster.store.all():
        if obj["metadata"].get("uid") in leaving and obj["metadata"]["uid"] not in held:
            cluster.store.remove(key, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    for namespace in cluster.store.select("namespaces"):
        if is_leaving(namespace):
            _namespace(cluster, namespace["metadata"]["name"])


def _delete(cluster: Cluster, key: str, obj: Object, policy: str) -> None:
    meta = obj["metadata"]
    try:
        resource = cluster.resource(key)
    except StopIteration:
        cluster.store.remove(key, meta.get("namespace", ""), meta["name"])
        return
    cluster.objects.delete(resource, meta.get("namespace", ""), meta["name"], {"propagationPolicy": policy})


def _namespace(cluster: Cluster, name: str) -> None:
    remaining = 0
    for key, obj in cluster.store.all():
        if obj["metadata"].get("namespace") != name:
            continue
        remaining += 1
        if key == "pods":
            if not is_leaving(obj):
                _delete(cluster, key, obj, "Background")
        else:
            cluster.store.remove(key, name, obj["metadata"]["name"])
    if not remaining:
        cluster.store.remove("namespaces", "", name)
