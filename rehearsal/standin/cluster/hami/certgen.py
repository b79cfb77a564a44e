"""The chart's two hook Jobs: one makes the Secret with the webhook's certificate, the other fills in its authority."""

import asyncio
import base64
from typing import Any

from .. import pki
from ..kubelet import programs
from ..kubelet.container import Played

Object = dict[str, Any]


def register() -> None:
    programs.register(lambda c: c.image.kind == "certgen", certgen)


def _arguments(spec: Object) -> tuple[str, dict[str, str]]:
    words = [str(w) for w in [*(spec.get("command") or []), *(spec.get("args") or [])]]
    command = next((w for w in words if not w.startswith("-") and w in ("create", "patch")), "")
    return command, {w.lstrip("-").partition("=")[0]: w.partition("=")[2] for w in words if w.startswith("-")}


async def certgen(context: programs.Context, held: Played) -> int:
    command, given = _arguments(context.spec)
    store = context.cluster.store
    namespace, name = given.get("namespace", "default"), given.get("secret-name", "")
    await asyncio.sleep(0.5)
    secret = store.get("secrets", namespace, name)
    if command == "create":
        if secret is not None:
            held.log("secret already exists")
            return 0
        authority = pki.make_authority("nil1")
        certificate, key = pki.issue(
            authority, given.get("host", "").split(",")[0], sans=given.get("host", "").split(",")
        )
        data = {given.get("ca-name", "ca"): authority[0]}
        data[given.get("cert-name", "cert")] = certificate
        data[given.get("key-name", "key")] = key
        data = {k: base64.b64encode(v).decode() for k, v in data.items()}
        made = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data}
        store.create("secrets", {**made, "metadata": {"name": name, "namespace": namespace}})
        held.log(f"saved secret {namespace}/{name}")
        return 0
    if command == "patch":
        if secret is None:
            held.log(f"no secret with '{name}' in '{namespace}'")
            return 1
        return _patch(context, held, given, secret)
    held.log("unknown command")
    return 1


def _patch(context: programs.Context, held: Played, given: dict[str, str], secret: Object) -> int:
    bundle = (secret.get("data") or {}).get(given.get("ca-name", "ca"), "")
    key = "admissionregistration.k8s.io/mutatingwebhookconfigurations"

    def fill(obj: Object) -> None:
        for hook in obj.get("webhooks") or []:
            hook["clientConfig"]["caBundle"] = bundle

    if context.cluster.store.modify(key, "", given.get("webhook-name", ""), fill) is None:
        held.log(f"failed getting mutating webhook {given.get('webhook-name')}")
        return 1
    held.log(f"patched webhook configuration {given.get('webhook-name')}")
    return 0
