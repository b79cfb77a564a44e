"""What a reset would still have to remove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

from hami_k3s.facts import api, batch
from hami_k3s.facts.hami import HANDSHAKE, REGISTER, fullname
from hami_k3s.facts.kubernetes import answer_items, node

ANNOTATIONS = (
    REGISTER,
    HANDSHAKE,
    "hami.io/mutex.lock",
    "hami.io/nvidia-license",
    "hami.io/node-nvidia-score",
)


@dataclass(frozen=True)
class Leftovers:
    """`k3s`: the uninstall script is there. `hami`: what belongs to HAMi or to verify, one word or two each.

    `api` is False where k3s is there and does not answer: what it holds is unknown then.
    """

    k3s: bool = False
    api: bool = False
    hami: tuple[str, ...] = ()


PROBES = {"k3s": "ls /usr/local/bin/k3s-uninstall.sh", "hostname": "hostname | tr A-Z a-z"}


def paths(release: str, namespace: str, owner: str) -> dict[str, str]:
    """What the API is asked."""
    where, name = f"namespaces/{quote(namespace)}", fullname(release)
    return {
        "nodes": "/api/v1/nodes",
        "release": api.helm_secrets(namespace, release),
        "secret": f"/api/v1/{where}/secrets/{name}-scheduler-tls",
        "lease": f"/apis/coordination.k8s.io/v1/{where}/leases/{name}-scheduler",
        "spaces": api.listing("/api/v1/namespaces", owner),
    }


def parse(output: list[str]) -> Leftovers:
    """Leftovers from the answers to PROBES and `paths`."""
    answers = batch.parse(output)

    def objects(name: str) -> list[dict[str, Any]]:
        return answer_items(answers, name) or []

    found = [f"namespace {one['metadata']['name']}" for one in objects("spaces")]
    found += [f"{kind} {one['metadata']['name']}" for kind in ("secret", "lease") for one in objects(kind)]
    kept = [one["metadata"].get("labels", {}).get("status") for one in objects("release")]
    found += ["release"] if any(status != "uninstalled" for status in kept) else []
    nodes = answer_items(answers, "nodes")
    for own in map(node, nodes or []):
        if own.name == answers.get("hostname", batch.NOTHING).value:
            found += [f"annotation {key}" for key in ANNOTATIONS if key in own.annotations]
            found += ["label gpu"] if "gpu" in own.labels else []
    return Leftovers(
        k3s=answers.get("k3s", batch.NOTHING).value is not None, api=nodes is not None, hami=tuple(found)
    )


class Reset(FactBase[Leftovers]):
    """
    Returns what a reset would remove.

    + release: the Helm release
    + namespace: its namespace
    + owner: label of the namespaces that verify makes

    .. code:: python

        Leftovers(k3s=True, api=True, hami=("release", "label gpu"))
    """

    default = Leftovers

    @override
    def command(self, release: str, namespace: str, owner: str) -> StringCommand:
        return StringCommand(batch.script(PROBES), ";", api.script(paths(release, namespace, owner)))

    @override
    def process(self, output: list[str]) -> Leftovers:
        return parse(output)
