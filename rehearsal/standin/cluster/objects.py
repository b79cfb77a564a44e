"""Create, replace, patch and delete with the API server's rules, over the store."""

import copy
from typing import Any

from . import clock, defaults, patch, problem, validation
from .admission import Admission
from .problem import ProblemError
from .resources import Resource, storage_key
from .store import Store

Object = dict[str, Any]
SERVER_OWNED = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+cbor": "apply",
}


class Objects:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.admission = Admission(store)

    def create(
        self, resource: Resource, namespace: str, obj: Object, dry: bool = False, strict: bool = False
    ) -> Object:
        obj = copy.deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        if meta.get("generateName") and not meta.get("name"):
            meta["name"] = meta["generateName"] + defaults.suffix()
        self._address(resource, namespace, obj)
        for key in SERVER_OWNED:
            meta.pop(key, None)
        if meta.get("resourceVersion"):
            raise ProblemError(400, "resourceVersion should not be set on objects to be created")
        meta.pop("resourceVersion", None)
        validation.check(resource, obj, strict)
        if resource.key in ("pods", "apps/deployments", "apps/daemonsets", "apps/replicasets", "batch/jobs"):
            obj["status"] = {}
        defaults.fill(resource, obj, self.store)
        if self.store.get(resource, meta.get("namespace", ""), meta["name"]) is not None:
            raise problem.already_exists(resource.plural, meta["name"], resource.group)
        if resource.key == "services":
            validation.check_node_ports(obj, self.store)
        obj = self.admission.on_create(resource, obj)
        if resource.key == "pods":
            defaults.pod_spec(obj["spec"])
            defaults.pod_tolerations(obj["spec"])
        if dry:
            return self._as_created(obj)
        self.store.create(resource, obj)
        if resource.key == "batch/jobs":
            self.store.modify(resource, meta["namespace"], meta["name"], defaults.job_selector)
            self.store.modify(
                resource, meta["namespace"], meta["name"], lambda o: o["metadata"].update(generation=1)
            )
        if resource.key == "namespaces":
            self._furnish(meta["name"])
        return self.store.need(resource, meta.get("namespace", ""), meta["name"])

    def _as_created(self, obj: Object) -> Object:
        import uuid

        obj["metadata"].update(uid=str(uuid.uuid4()), creationTimestamp=clock.stamp())
        if "spec" in obj:
            obj["metadata"].setdefault("generation", 1)
        return obj

    def _furnish(self, namespace: str) -> None:
        """What a fresh namespace gets."""
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        }
        self.store.create("serviceaccounts", account)
        authority = {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}
        authority["metadata"] = {"name": "kube-root-ca.crt", "namespace": namespace}
        self.store.create("configmaps", authority)

    def _address(self, resource: Resource, namespace: str, obj: Object) -> None:
        meta = obj["metadata"]
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        if (obj["apiVersion"], obj["kind"]) != (resource.api_version, resource.kind):
            text = (
                f"the API version in the data ({obj['apiVersion']}) does not match the expected API version "
            )
            raise ProblemError(400, f"{text}({resource.api_version})")
        if resource.namespaced:
            if meta.get("namespace") and meta["namespace"] != namespace:
                text = "the namespace of the provided object does not match the namespace sent on the request"
                raise ProblemError(400, text)
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        if not meta.get("name"):
            raise ProblemError(
                422, f"{resource.kind} is invalid: metadata.name: Required value: name is required"
            )

    def replace(
        self, resource: Resource, namespace: str, name: str, obj: Object, sub: str = "", dry: bool = False
    ) -> Object:
        old = self.store.need(resource, namespace, name)
        wanted = copy.deepcopy(obj)
        sent = (wanted.get("metadata") or {}).get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"]:
            raise problem.conflict(resource.plural, name, resource.group)
        return self._settle(resource, old, wanted, sub, dry)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        content_type: str,
        body: Any,
        options: dict[str, Any],
    ) -> tuple[Object, bool]:
        """The object and whether it was created (server-side apply can)."""
        how = PATCHES.get(content_type)
        if how is None:
            raise ProblemError(415, f"the body of the request was in an unknown format: {content_type}")
        sub, dry = options.get("sub", ""), options.get("dry", False)
        old = self.store.get(resource, namespace, name)
        if how == "apply":
            return self._apply(resource, namespace, name, body, options, old)
        if old is None:
            raise problem.not_found(resource.plural, name, resource.group)
        if how == "json":
            wanted = patch.json_patch(old, body)
        elif how == "merge":
            wanted = patch.merge(old, body)
        else:
            wanted = patch.strategic(copy.deepcopy(old), body)
        sent = ((body.get("metadata") or {}) if isinstance(body, dict) else {}).get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"]:
            raise problem.conflict(resource.plural, name, resource.group)
        return self._settle(resource, old, copy.deepcopy(wanted), sub, dry), False

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        options: dict[str, Any],
        old: Object | None,
    ) -> tuple[Object, bool]:
        manager = options.get("manager") or "unknown"
        dry = options.get("dry", False)
        body = copy.deepcopy(body)
        (body.get("metadata") or {}).pop("managedFields", None)
        entry = f"{storage_key(resource)}|{namespace if resource.namespaced else ''}|{name}|{manager}"
        if old is None:
            body.setdefault("metadata", {})["name"] = name
            made = self.create(resource, namespace, body, dry, options.get("strict", False))
            if not dry:
                self.store.remember_applied(entry, body)
            return made, True
        wanted = patch.apply(self.store.applied.get(entry), body, old)
        settled = self._settle(resource, old, wanted, options.get("sub", ""), dry)
        if not dry:
            self.store.remember_applied(entry, body)
        return settled, False

    def _settle(self, resource: Resource, old: Object, wanted: Object, sub: str, dry: bool) -> Object:
        meta = wanted.setdefault("metadata", {})
        for key in SERVER_OWNED:
            meta.pop(key, None)
            if key in old["metadata"]:
                meta[key] = old["metadata"][key]
        for key in ("name", "namespace"):
            if meta.get(key, old["metadata"].get(key)) != old["metadata"].get(key):
                raise ProblemError(400, f"the {key} of the object does not match the {key} on the URL")
            if key in old["metadata"]:
                meta[key] = old["metadata"][key]
        wanted["apiVersion"], wanted["kind"] = old["apiVersion"], old["kind"]
        if sub == "status":
            wanted = {**copy.deepcopy(old), "status": wanted.get("status", {})}
        elif "status" in [*resource.subs, *(["status"] if resource.key == "pods" else [])]:
            wanted.pop("status", None)
            if "status" in old:
                wanted["status"] = copy.deepcopy(old["status"])
        if sub != "status":
            defaults.fill(resource, wanted, self.store)
            validation.check(resource, wanted, False)
            validation.check_change(resource, old, wanted)
            if resource.key == "services":
                validation.check_node_ports(wanted, self.store)
        if dry:
            return wanted
        updated = self.store.update(resource, wanted)
        if updated["metadata"].get("deletionTimestamp") and not updated["metadata"].get("finalizers"):
            self._drop_if_free(resource, updated)
        return updated

    def _drop_if_free(self, resource: Resource, obj: Object) -> None:
        if resource.key not in ("pods", "namespaces"):
            self.store.remove(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])

    def delete(
        self, resource: Resource, namespace: str, name: str, options: Object, dry: bool = False
    ) -> Object:
        old = self.store.need(resource, namespace, name)
        meta = old["metadata"]
        wanted_uid = (options.get("preconditions") or {}).get("uid")
        if wanted_uid and wanted_uid != meta["uid"]:
            raise problem.conflict(resource.plural, name, resource.group)
        if dry:
            return old
        if resource.key == "pods":
            return self._delete_pod(old, options)
        if resource.key == "namespaces":
            return self._mark(resource, old, lambda o: o.setdefault("status", {}).update(phase="Terminating"))
        policy = options.get("propagationPolicy") or "Background"
        if policy == "Foreground":

            def hold(obj: Object) -> None:
                finalizers = obj["metadata"].setdefault("finalizers", [])
                if "foregroundDeletion" not in finalizers:
                    finalizers.append("foregroundDeletion")

            return self._mark(resource, old, hold)
        if policy == "Orphan":
            self._orphan(meta["uid"])
        if meta.get("finalizers"):
            return self._mark(resource, old, lambda _: None)
        if (
            resource.key == "nodes"
        ):  # k3s' own controller: a node of that name may come back with another password
            self.store.remove("secrets", "kube-system", f"{name}.node-password.k3s")
            self.store.remove("rehearsal/members", "", name)
        return self.store.remove(resource, namespace, name) or old

    def _mark(self, resource: Resource, old: Object, change: Any) -> Object:
        def marked(obj: Object) -> None:
            obj["metadata"].setdefault("deletionTimestamp", clock.stamp())
            change(obj)

        meta = old["metadata"]
        return self.store.modify(resource, meta.get("namespace", ""), meta["name"], marked) or old

    def _delete_pod(self, old: Object, options: Object) -> Object:
        meta = old["metadata"]
        grace = options.get("gracePeriodSeconds")
        if grace is None:
            grace = old["spec"].get("terminationGracePeriodSeconds", 30)
        if not old["spec"].get("nodeName") or grace == 0:
            return self.store.remove("pods", meta["namespace"], meta["name"]) or old

        def mark(obj: Object) -> None:
            obj["metadata"].setdefault("deletionTimestamp", clock.stamp())
            obj["metadata"]["deletionGracePeriodSeconds"] = grace

        return self.store.modify("pods", meta["namespace"], meta["name"], mark) or old

    def _orphan(self, uid: str) -> None:
        for key, obj in self.store.all():
            owners = obj["metadata"].get("ownerReferences") or []
            if any(o["uid"] == uid for o in owners):

                def release(o: Object) -> None:
                    o["metadata"]["ownerReferences"] = [
                        r for r in o["metadata"]["ownerReferences"] if r["uid"] != uid
                    ]

                self.store.modify(key, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], release)
