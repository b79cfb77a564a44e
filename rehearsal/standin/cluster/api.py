"""The Kubernetes API over HTTP: who may ask, what the path means, which answer it gets."""

import json
from typing import Any

import yaml
from aiohttp import web

from . import disruption, events, identity, log, problem, protobuf, selectors, watch
from .api_root import ApiRoot
from .objects import Objects
from .problem import ProblemError
from .raft import TIMED_OUT
from .resources import EVENTS_V1, Resource, Table
from .store import Store
from .table import render

Object = dict[str, Any]
OPEN_PATHS = ("/ping", "/cacerts")


class Api(ApiRoot):
    def __init__(
        self, store: Store, objects: Objects, table: Table, version: str, address: str, ca: bytes
    ) -> None:
        self.store, self.objects, self.table = store, objects, table
        self.version, self.address, self.ca = version, address, ca
        self.ready = False
        self.raft: Any = None  # who decides; None: this process, always
        self.supervisor: Any = None  # what joining nodes and other servers ask
        self.pod_sub: Any = None  # (request, pod, sub) -> response: logs, exec, attach

    def app(self) -> web.Application:
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.path == "/ping":
                return web.Response(text="pong")
            if request.path == "/cacerts":
                return web.Response(body=self.ca, content_type="text/plain")
            if request.path.startswith(("/v1-k3s/", "/rehearsal/")) and self.supervisor:
                return await self.supervisor.handle(request)
            who = identity.of(request)
            if who is None:
                raise ProblemError(401, "Unauthorized")
            who.check(request)
            return await self._decided(request)
        except ProblemError as refused:
            return web.json_response(refused.status(), status=refused.code)
        except web.HTTPException:
            raise
        except Exception as broken:
            log.error(f"{request.method} {request.path}: {type(broken).__name__}: {broken}")
            import traceback

            traceback.print_exc()
            return web.json_response(
                ProblemError(500, f"Internal error occurred: {broken}").status(), status=500
            )

    async def _decided(self, request: web.Request) -> web.StreamResponse:
        """Reading is done here; a change by whoever leads, and answered when a majority has it."""
        health = request.path.split("/")[1] in ("readyz", "livez", "healthz")
        if self.raft is None or (health and self.raft.available):
            return await self._route(request)
        if health:
            return self._health(request, request.path.split("/")[1], "etcd")
        if not await self.raft.wait_available(10.0):
            raise ProblemError(500, TIMED_OUT)
        changes = request.method not in ("GET", "HEAD") and not request.path.endswith(("/exec", "/attach"))
        if changes and not self.raft.leads:
            return await self.supervisor.forward(request)
        answer = await self._route(request)
        if changes and not await self.raft.committed(self.store.version):
            raise ProblemError(500, TIMED_OUT)
        return answer

    async def _route(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/")
        parts = [p for p in path.split("/") if p]
        if path in ("/readyz", "/livez", "/healthz") or (
            parts and parts[0] in ("readyz", "livez", "healthz")
        ):
            return self._health(request, parts[0])
        if path == "/version":
            return web.json_response(self._version())
        if parts[:2] == ["openapi", "v3"]:
            return self._openapi(parts[2:])
        found = self._discovery(request, parts)
        if found is not None:
            return found
        if parts[:1] == ["api"] and len(parts) > 2:
            return await self._resource(request, "", parts[1], parts[2:])
        if parts[:1] == ["apis"] and len(parts) > 3:
            return await self._resource(request, parts[1], parts[2], parts[3:])
        raise ProblemError(404, "the server could not find the requested resource", details={})

    async def _resource(
        self, request: web.Request, group: str, version: str, rest: list[str]
    ) -> web.StreamResponse:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        if group in ("authorization.k8s.io", "authentication.k8s.io"):
            return await self._review(request, rest[0])
        resource = self.table.find(group, version, rest[0])
        if resource is None:
            raise ProblemError(404, "the server could not find the requested resource")
        if len(rest) == 1:
            return await self._collection(request, resource, namespace)
        return await self._item(request, resource, namespace, rest[1], rest[2] if len(rest) > 2 else "")

    async def _review(self, request: web.Request, plural: str) -> web.Response:
        body = await self._body(request)
        if plural in ("selfsubjectaccessreviews", "subjectaccessreviews"):
            return web.json_response({**body, "status": {"allowed": True, "reason": ""}}, status=201)
        user = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}
        return web.json_response({**body, "status": {"userInfo": user}}, status=201)

    # --- collections

    async def _collection(
        self, request: web.Request, resource: Resource, namespace: str
    ) -> web.StreamResponse:
        query = request.query
        if request.method == "GET":
            fields = query.get("fieldSelector", "")
            labels = query.get("labelSelector", "")

            def keep(obj: Object) -> bool:
                if labels and not selectors.match_text(labels, obj["metadata"].get("labels") or {}):
                    return False
                return not fields or selectors.match_fields(fields, obj)

            if query.get("watch") in ("true", "1"):
                return await watch.stream(
                    request,
                    self.store,
                    resource,
                    namespace,
                    keep,
                    lambda o: self._shown(request, resource, o),
                )
            items = [o for o in self.store.select(resource, namespace) if keep(o)]
            return web.json_response(self._list(request, resource, items))
        if request.method == "POST":
            body = await self._body(request)
            strict = query.get("fieldValidation") == "Strict"
            made = self.objects.create(resource, namespace, body, "dryRun" in query, strict)
            return web.json_response(made, status=201)
        if request.method == "DELETE":
            options = await self._body(request, empty={})
            for obj in self.store.select(resource, namespace):
                labels = obj["metadata"].get("labels") or {}
                if query.get("labelSelector") and not selectors.match_text(query["labelSelector"], labels):
                    continue
                if query.get("fieldSelector") and not selectors.match_fields(query["fieldSelector"], obj):
                    continue
                self.objects.delete(
                    resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], options
                )
            return web.json_response(
                {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            )
        raise ProblemError(405, "the server does not allow this method on the requested resource")

    def _list(self, request: web.Request, resource: Resource, items: list[Object]) -> Object:
        if "as=Table" in request.headers.get("Accept", "").split(",")[0]:
            include = request.query.get("includeObject", "Metadata")
            return render(resource, items, str(self.store.version), include)
        if resource is EVENTS_V1:
            items = [events.as_events_v1(o) for o in items]
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self.store.version)},
            "items": items,
        }

    def _shown(self, request: web.Request, resource: Resource, obj: Object) -> Object:
        if "as=Table" in request.headers.get("Accept", "").split(",")[0]:
            version = obj["metadata"].get("resourceVersion", "")
            return render(resource, [obj], version, request.query.get("includeObject", "Metadata"))
        return events.as_events_v1(obj) if resource is EVENTS_V1 else obj

    # --- one object

    async def _item(
        self, request: web.Request, resource: Resource, namespace: str, name: str, sub: str
    ) -> web.StreamResponse:
        method, dry = request.method, "dryRun" in request.query
        if resource.key == "pods" and sub in ("log", "exec", "attach"):
            return await self.pod_sub(request, self.store.need(resource, namespace, name), sub)
        if sub and sub not in resource.subs:
            raise ProblemError(404, "the server could not find the requested resource")
        if resource.key == "pods" and sub in ("binding", "eviction") and method == "POST":
            return await self._pod_action(request, resource, namespace, name, sub)
        if sub == "scale":
            return await self._scale(request, resource, namespace, name)
        if method == "GET":
            obj = self.store.need(resource, namespace, name)
            return web.json_response(self._shown(request, resource, obj))
        if method == "PUT":
            body = await self._body(request)
            return web.json_response(self.objects.replace(resource, namespace, name, body, sub, dry))
        if method == "PATCH":
            options = {
                "sub": sub,
                "dry": dry,
                "manager": request.query.get("fieldManager"),
                "strict": request.query.get("fieldValidation") == "Strict",
            }
            body = yaml.safe_load(await request.text())
            obj, made = self.objects.patch(resource, namespace, name, request.content_type, body, options)
            return web.json_response(obj, status=201 if made else 200)
        if method == "DELETE":
            options = await self._body(request, empty={})
            if "propagationPolicy" in request.query:
                options["propagationPolicy"] = request.query["propagationPolicy"]
            if "gracePeriodSeconds" in request.query:
                options["gracePeriodSeconds"] = int(request.query["gracePeriodSeconds"])
            dry = dry or bool(options.get("dryRun"))
            obj = self.objects.delete(resource, namespace, name, options, dry)
            if resource.key == "pods" or obj["metadata"].get("deletionTimestamp"):
                return web.json_response(obj)
            details = {"name": name, "kind": resource.plural, "uid": obj["metadata"]["uid"]}
            if resource.group:
                details["group"] = resource.group
            body = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details,
            }
            return web.json_response(body)
        raise ProblemError(405, "the server does not allow this method on the requested resource")

    async def _pod_action(
        self, request: web.Request, resource: Resource, namespace: str, name: str, sub: str
    ) -> web.Response:
        body = await self._body(request)
        if sub == "eviction":
            disruption.check(self.store, self.store.need(resource, namespace, name))
            self.objects.delete(resource, namespace, name, body.get("deleteOptions") or {})
        else:
            node = body["target"]["name"]
            if self.store.need(resource, namespace, name)["spec"].get("nodeName"):
                raise problem.conflict("pods/binding", name)
            self.store.modify("pods", namespace, name, lambda o: o["spec"].update(nodeName=node))
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return web.json_response(body, status=201)

    async def _scale(
        self, request: web.Request, resource: Resource, namespace: str, name: str
    ) -> web.Response:
        obj = self.store.need(resource, namespace, name)
        if request.method in ("PUT", "PATCH"):
            count = int((yaml.safe_load(await request.text()).get("spec") or {}).get("replicas", 0))
            change = {"spec": {"replicas": count}}
            options: Object = {"dry": "dryRun" in request.query}
            how = "application/merge-patch+json"
            obj, _ = self.objects.patch(resource, namespace, name, how, change, options)
        meta = {
            k: obj["metadata"][k]
            for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        }
        body = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta}
        body["spec"] = {"replicas": obj["spec"].get("replicas", 0)}
        body["status"] = {"replicas": obj.get("status", {}).get("replicas", 0)}
        return web.json_response(body)

    async def _body(self, request: web.Request, empty: Object | None = None) -> Object:
        raw = await request.read()
        if not raw.strip():
            if empty is not None:
                return empty
            raise ProblemError(400, "the request has no body")
        if raw.startswith(protobuf.MAGIC):
            return protobuf.decode(raw)
        try:
            content = json.loads(raw) if raw.lstrip()[:1] == b"{" else yaml.safe_load(raw)
        except (ValueError, yaml.YAMLError) as broken:
            raise ProblemError(400, f"the object provided is unrecognized: {broken}") from broken
        if not isinstance(content, dict):
            raise ProblemError(400, "the object provided is unrecognized")
        return content
