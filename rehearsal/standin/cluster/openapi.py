"""OpenAPI v3 documents: enough for clients to see that the server checks fields itself."""

from typing import Any

from .resources import Resource, Table

PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def index(table: Table) -> dict[str, Any]:
    found = {}
    for group, versions in table.group_versions().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            found[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash=rehearsal"}
    return {"paths": found}


def document(table: Table, group: str, version: str) -> dict[str, Any] | None:
    found = [r for r in table.all if r.group == group and r.version == version]
    if not found:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {path: item for r in found for path, item in _paths(r).items()},
        "components": {"schemas": {_schema_name(r): _schema(r) for r in found}},
    }


def _schema_name(resource: Resource) -> str:
    group = resource.group.split(".")[0] or "core"
    return f"io.k8s.api.{group}.{resource.version}.{resource.kind}"


def _gvk(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema(resource: Resource) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": [_gvk(resource)],
    }


def _paths(resource: Resource) -> dict[str, Any]:
    prefix = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    body = {
        "content": {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{_schema_name(resource)}"}}
        }
    }

    def operation(action: str, **more: Any) -> dict[str, Any]:
        return {
            "parameters": PARAMETERS,
            "responses": {"200": {"description": "OK", **body}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource),
            **more,
        }

    return {
        f"{prefix}{scope}/{resource.plural}": {"post": operation("post", requestBody=body)},
        f"{prefix}{scope}/{resource.plural}/{{name}}": {
            "get": operation("get"),
            "put": operation("put", requestBody=body),
            "patch": operation("patch", requestBody=body),
            "delete": operation("delete"),
        },
    }
