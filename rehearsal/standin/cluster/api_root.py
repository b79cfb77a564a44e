"""What the API server says of itself: health, version, discovery, OpenAPI."""

import json
from typing import Any

from aiohttp import web

from . import containerd, discovery, openapi
from .problem import ProblemError
from .resources import Table

Object = dict[str, Any]


class ApiRoot:
    table: Table
    version: str
    address: str
    ready: bool

    def _health(self, request: web.Request, kind: str, failed: str = "") -> web.Response:
        checks = ["ping", "log", "etcd", "informer-sync", "poststarthook/start-apiextensions-controllers"]
        lines = "\n".join(f"[+]{c} ok" for c in checks)
        if failed:
            lines = "\n".join(
                f"[-]{c} failed: reason withheld" if c == failed else f"[+]{c} ok" for c in checks
            )
            return web.Response(status=500, text=f"{lines}\n{kind} check failed")
        if not self.ready:
            text = (
                f"{lines}\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\n{kind} check failed"
            )
            return web.Response(status=500, text=text)
        return web.Response(text=f"{lines}\n{kind} check passed\n" if "verbose" in request.query else "ok")

    def _version(self) -> Object:
        major, minor, _ = containerd.parse_version(self.version)
        return {
            "major": str(major),
            "minor": str(minor),
            "gitVersion": self.version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "2026-06-20T00:00:00Z",
            "goVersion": "go1.25.5",
            "compiler": "gc",
            "platform": "linux/amd64",
        }

    def _openapi(self, parts: list[str]) -> web.Response:
        if not parts:
            return web.json_response(openapi.index(self.table))
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        document = openapi.document(self.table, group, version)
        if document is None:
            raise ProblemError(404, "the server could not find the requested resource")
        return web.json_response(document)

    def _discovery(self, request: web.Request, parts: list[str]) -> web.Response | None:
        if parts in (["api"], ["apis"]):
            if "APIGroupDiscoveryList" in request.headers.get("Accept", ""):
                body = json.dumps(discovery.aggregated(self.table, parts == ["api"]))
                return web.Response(body=body.encode(), headers={"Content-Type": discovery.AGGREGATED})
            if parts == ["api"]:
                return web.json_response(discovery.api_versions(self.address))
            return web.json_response(discovery.group_list(self.table))
        content = None
        if parts[:1] == ["api"] and len(parts) == 2:
            content = discovery.resource_list(self.table, "", parts[1])
        elif parts[:1] == ["apis"] and len(parts) == 2:
            content = discovery.one_group(self.table, parts[1])
        elif parts[:1] == ["apis"] and len(parts) == 3:
            content = discovery.resource_list(self.table, parts[1], parts[2])
        else:
            return None
        if content is None:
            raise ProblemError(404, "the server could not find the requested resource")
        return web.json_response(content)
