"""What happens to an object between decoding and storage: namespace, service account, mutating webhooks.

A webhook is called only as a real API server could: its Service has endpoints and its caBundle is the authority that
signed the serving certificate. Otherwise `failurePolicy` decides.
"""

import base64
from collections.abc import Callable
from typing import Any

from . import log, problem, selectors
from .problem import ProblemError
from .resources import Resource
from .store import Store

Object = dict[str, Any]
# A webhook's answer: the changed object, or ProblemError when it denies. Called with (object, webhook).
Backend = Callable[[Object, Object], Object]


class Admission:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.backends: list[Callable[[Object], Backend | None]] = []  # service reference -> who answers there

    def on_create(self, resource: Resource, obj: Object) -> Object:
        namespace = obj["metadata"].get("namespace", "")
        if resource.namespaced:
            self._namespace(resource, obj, namespace)
        if resource.key == "pods":
            self._service_account(obj, namespace)
            self._runtime_class(obj)
            obj = self._webhooks(obj, namespace)
        return obj

    def _namespace(self, resource: Resource, obj: Object, namespace: str) -> None:
        found = self.store.get("namespaces", "", namespace)
        if found is None:
            raise problem.not_found("namespaces", namespace)
        if found["metadata"].get("deletionTimestamp"):
            name = obj["metadata"]["name"]
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise ProblemError(403, f'{resource.plural} "{name}" is forbidden: {text}', "Forbidden")

    def _service_account(self, obj: Object, namespace: str) -> None:
        spec = obj["spec"]
        account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        if self.store.get("serviceaccounts", namespace, account) is None:
            name = obj["metadata"]["name"]
            text = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise ProblemError(403, f'pods "{name}" is forbidden: {text}', "Forbidden")

    def _runtime_class(self, obj: Object) -> None:
        wanted = obj["spec"].get("runtimeClassName")
        if wanted and self.store.get("node.k8s.io/runtimeclasses", "", wanted) is None:
            name = obj["metadata"]["name"]
            text = f'pod rejected: RuntimeClass "{wanted}" not found'
            raise ProblemError(403, f'pods "{name}" is forbidden: {text}', "Forbidden")

    def _webhooks(self, obj: Object, namespace: str) -> Object:
        for configuration in self.store.select("admissionregistration.k8s.io/mutatingwebhookconfigurations"):
            for webhook in configuration.get("webhooks") or []:
                if self._concerns(webhook, obj, namespace):
                    obj = self._call(webhook, obj)
        return obj

    def _concerns(self, webhook: Object, obj: Object, namespace: str) -> bool:
        rules = webhook.get("rules") or []
        if not any("pods" in r.get("resources", []) and "CREATE" in r.get("operations", []) for r in rules):
            return False
        ns = self.store.get("namespaces", "", namespace) or {"metadata": {}}
        if not selectors.match_labels(
            webhook.get("namespaceSelector", {}), ns["metadata"].get("labels") or {}
        ):
            return False
        return selectors.match_labels(webhook.get("objectSelector", {}), obj["metadata"].get("labels") or {})

    def _call(self, webhook: Object, obj: Object) -> Object:
        try:
            backend = self._reach(webhook)
        except ConnectionError as why:
            if webhook.get("failurePolicy") == "Fail":
                text = f'Internal error occurred: failed calling webhook "{webhook["name"]}": {why}'
                raise ProblemError(500, text) from why
            log.warning(f"Failed calling webhook, failing open {webhook['name']}: {why}")
            return obj
        return backend(obj, webhook)

    def _reach(self, webhook: Object) -> Backend:
        client = webhook.get("clientConfig") or {}
        reference = client.get("service")
        if not reference:
            raise ConnectionError(f'Post "{client.get("url")}": dial tcp: i/o timeout')
        namespace, name, port = reference["namespace"], reference["name"], reference.get("port", 443)
        url = f"https://{name}.{namespace}.svc:{port}{reference.get('path', '')}?timeout=10s"
        service = self.store.get("services", namespace, name)
        if service is None:
            raise ConnectionError(f'Post "{url}": service "{name}" not found')
        endpoints = self.store.get("endpoints", namespace, name) or {}
        if not any(s.get("addresses") for s in endpoints.get("subsets") or []):
            raise ConnectionError(f'Post "{url}": no endpoints available for service "{name}"')
        for find in self.backends:
            backend = find(reference)
            if backend is not None:
                self._verify(url, client.get("caBundle", ""), reference)
                return backend
        raise ConnectionError(f'Post "{url}": dial tcp: connect: connection refused')

    def _verify(self, url: str, bundle: str, reference: Object) -> None:
        """The serving certificate is in the Secret that the release's pod mounts."""
        for secret in self.store.select("secrets", reference["namespace"]):
            authority = (secret.get("data") or {}).get("ca")
            trusted = bundle and authority and base64.b64decode(bundle) == base64.b64decode(authority)
            if trusted and "cert" in secret["data"]:
                return
        raise ConnectionError(
            f'Post "{url}": tls: failed to verify certificate: x509: certificate signed by unknown authority'
        )
