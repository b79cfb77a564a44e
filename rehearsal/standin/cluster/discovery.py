"""Discovery documents: which groups, versions and resources there are."""

from typing import Any

from .resources import Resource, Table

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SUB_KINDS = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction")}


def api_versions(address: str) -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(table: Table) -> dict[str, Any]:
    groups = [_group(name, versions) for name, versions in table.group_versions().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    found = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def one_group(table: Table, name: str) -> dict[str, Any] | None:
    versions = table.group_versions().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resource_list(table: Table, group: str, version: str) -> dict[str, Any] | None:
    found = [r for r in table.all if r.group == group and r.version == version]
    if not found:
        return None
    resources = []
    for resource in found:
        resources.append(_legacy(resource))
        for sub in resource.subs:
            entry = {
                "name": f"{resource.plural}/{sub}",
                "singularName": "",
                "namespaced": resource.namespaced,
            }
            resources.append({**entry, **_sub_kind(resource, sub), "verbs": _sub_verbs(sub)})
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _sub_kind(resource: Resource, sub: str) -> dict[str, str]:
    if sub in SUB_KINDS:
        group, version, kind = SUB_KINDS[sub]
        return {"group": group, "version": version, "kind": kind}
    return {"kind": resource.kind}


def _sub_verbs(sub: str) -> list[str]:
    if sub in ("exec", "attach"):
        return ["create", "get"]
    if sub in ("binding", "eviction", "token"):
        return ["create"]
    return ["get"] if sub == "log" else ["get", "patch", "update"]


def _legacy(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": VERBS,
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    if resource.key in (
        "pods",
        "services",
        "apps/deployments",
        "apps/daemonsets",
        "apps/replicasets",
        "batch/jobs",
    ):
        entry["categories"] = ["all"]
    return entry


def aggregated(table: Table, core: bool) -> dict[str, Any]:
    """The one-document form that current clients ask for first."""
    items = []
    for name, versions in table.group_versions().items():
        if (name == "") is not core:
            continue
        items.append(
            {
                "metadata": {"name": name, "creationTimestamp": None},
                "versions": [
                    {
                        "version": version,
                        "freshness": "Current",
                        "resources": [
                            _modern(r) for r in table.all if r.group == name and r.version == version
                        ],
                    }
                    for version in versions
                ],
            }
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _modern(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": VERBS,
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    legacy = _legacy(resource)
    if "categories" in legacy:
        entry["categories"] = legacy["categories"]
    subs = []
    for sub in resource.subs:
        kind = {"group": resource.group, "version": resource.version, **_sub_kind(resource, sub)}
        subs.append({"subresource": sub, "responseKind": kind, "verbs": _sub_verbs(sub)})
    if subs:
        entry["subresources"] = subs
    return entry
