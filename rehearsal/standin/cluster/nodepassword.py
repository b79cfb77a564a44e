"""The secret by which a server knows a node again: /etc/rancher/node/password, and its hash in the cluster."""

import base64
import hashlib
import os
import secrets

from . import paths, pki
from .problem import ProblemError
from .store import Store

REJECTED = (
    "Node password rejected, duplicate hostname or contents of '{}' may not match server node-passwd entry, "
    "try enabling a unique node name with the --with-node-id flag"
)


class RejectedError(Exception):
    """Another machine registered under this name."""


def own() -> str:
    """This machine's password, made when it is not there."""
    target = paths.on_node(paths.NODE_PASSWORD)
    if not target.exists():
        pki.write_private(target, os.urandom(16).hex().encode() + b"\n")
    return target.read_text().strip()


def _scrypt(password: str, salt: bytes) -> str:
    digest = hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
    return base64.b64encode(digest).decode()


def _hash(password: str) -> str:
    salt = secrets.token_bytes(8)
    return f"$1:{salt.hex()}:14:8:1:{_scrypt(password, salt)}"


def _matches(stored: str, password: str) -> bool:
    parts = stored.split(":")
    if len(parts) != 6:
        return False
    return secrets.compare_digest(parts[5], _scrypt(password, bytes.fromhex(parts[1])))


def ensure(store: Store, node: str, password: str) -> None:
    """The first password of a name is kept; another one is refused until its Node or its Secret is deleted."""
    name = f"{node}.node-password.k3s"
    secret = store.get("secrets", "kube-system", name)
    if secret is None:
        data = {"hash": base64.b64encode(_hash(password).encode()).decode()}
        obj = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": True, "data": data}
        try:
            store.create("secrets", {**obj, "metadata": {"name": name, "namespace": "kube-system"}})
            return
        except ProblemError:
            secret = store.get("secrets", "kube-system", name)
    stored = base64.b64decode(((secret or {}).get("data") or {}).get("hash", "")).decode()
    if not _matches(stored, password):
        raise RejectedError(f"unable to verify hash for node '{node}': hash does not match")
