"""Who asks, by the client certificate, and what a node's own identity may ask for."""

import re
from dataclasses import dataclass

from aiohttp import web

from .problem import ProblemError


@dataclass(frozen=True)
class Identity:
    name: str
    group: str

    @property
    def node(self) -> str:
        return self.name.removeprefix("system:node:") if self.group == "system:nodes" else ""

    @property
    def is_server(self) -> bool:
        return self.name == "system:apiserver"

    def check(self, request: web.Request) -> None:
        """The Node authorizer, narrowed to what people use a kubelet's kubeconfig for: looking at the node itself."""
        if not self.node:
            return
        path = request.path.rstrip("/")
        open_paths = (
            f"/api/v1/nodes/{self.node}",
            "/version",
            "/readyz",
            "/livez",
            "/healthz",
            "/api",
            "/apis",
        )
        if path in open_paths and request.method == "GET":
            return
        if re.fullmatch(r"/apis?(/[a-z0-9.]+)?/v\d[a-z0-9]*|/openapi/.*", path) and request.method == "GET":
            return
        lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{self.node}"
        own = f"spec.nodeName={self.node}"
        if request.method == "GET" and (path == lease or own in request.query.get("fieldSelector", "")):
            return
        parts = [p for p in path.split("/") if p]
        resource = next(
            (p for p in reversed(parts) if p in ("nodes", "pods", "secrets")), parts[-1] if parts else ""
        )
        verb = {"GET": "list", "POST": "create", "DELETE": "delete"}.get(request.method, "patch")
        text = f'{resource} is forbidden: User "{self.name}" cannot {verb} resource "{resource}" in API group "" '
        raise ProblemError(
            403, f"{text}at the cluster scope: no relationship found between node '{self.node}' and it"
        )


def of(request: web.Request) -> Identity | None:
    certificate = request.transport.get_extra_info("peercert") if request.transport else None
    if not certificate:
        return None
    found = {key: value for part in certificate.get("subject", ()) for key, value in part}
    return Identity(found.get("commonName", ""), found.get("organizationName", ""))
