"""A Helm release, and what its values depend on: the server's version and the numbers of nodes and servers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyinfra.api import StringCommand
from typing_extensions import override

from hami_k3s.facts import api, batch
from hami_k3s.facts.kubernetes import answer_items, node
from hami_k3s.facts.shared import Shared
from hami_k3s.traces import LIBRARY

KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
# There while a helm of ours works, and still there when that one was ended, also by a reboot.
AT_WORK = f"{LIBRARY}/charts/at-work"


@dataclass(frozen=True)
class ReleaseState:
    """One release. `status` is helm's word, "absent" without a release, None when helm or the API did not answer.

    `values` are the user-supplied ones. `good_revision`: newest revision that was deployed, for a rollback.
    """

    status: str | None = None
    revision: int = 0
    chart: str | None = None
    chart_version: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    good_revision: int | None = None
    server_version: str | None = None
    nodes: int | None = None
    servers: int | None = None
    age_s: int | None = None  # seconds since helm last touched the release, by the host's clock
    working: bool = False  # a helm process is at work on this host
    cut_off: bool = False  # a helm that this project started here was killed
    error: str | None = None


PROBES = {
    "now": "date +%s",
    "working": "grep -lxE 'helm|helm-v.*' /proc/[0-9]*/comm; true",
    "cut_off": f"test -e {AT_WORK} && echo yes",
}


def paths(release: str, namespace: str) -> dict[str, str]:
    """What the API is asked. helm itself would take a process and a second for each of its answers."""
    return {"secrets": api.helm_secrets(namespace, release), "version": "/version", "nodes": "/api/v1/nodes"}


def _age(last_deployed: object, now: str) -> int | None:
    """Seconds from helm's RFC 3339 time (nanoseconds and all) to `date +%s`."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$", str(last_deployed))
    if not match or not now.strip().isdigit():
        return None
    try:
        moment = datetime.fromisoformat("".join(match.groups()).replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(now) - int(moment.timestamp())


def parse(output: list[str]) -> ReleaseState:
    """ReleaseState from the answers to PROBES and `paths`."""
    answers = batch.parse(output)
    nodes = answer_items(answers, "nodes")
    common: dict[str, Any] = {
        "server_version": api.server_version(answers),
        "nodes": len(nodes) if nodes is not None else None,
        "servers": sum(node(one).server for one in nodes) if nodes is not None else None,
        "working": answers.get("working", batch.NOTHING).value is not None,
        "cut_off": answers.get("cut_off", batch.NOTHING).value == "yes",
    }
    secrets = answer_items(answers, "secrets")
    if secrets is None:
        return ReleaseState(error=api.reason(answers.get("secrets", batch.NOTHING)), **common)
    if not secrets:
        return ReleaseState(status="absent", **common)
    try:
        revisions = sorted(
            (api.helm_release(secret) for secret in secrets), key=lambda one: int(one["version"])
        )
        newest = revisions[-1]
        info, chart = newest["info"], newest["chart"]["metadata"]
        good = [int(one["version"]) for one in revisions if one["info"]["status"] == "deployed"]
        return ReleaseState(
            status=str(info["status"]),
            revision=int(newest["version"]),
            chart=str(chart["name"]),
            chart_version=str(chart["version"]),
            values=newest.get("config") or {},
            good_revision=max(good, default=None),
            age_s=_age(info.get("last_deployed"), answers.get("now", batch.NOTHING).text),
            **common,
        )
    except (KeyError, TypeError, ValueError) as error:
        return ReleaseState(error=f"the release's Secret cannot be read: {error}", **common)


class Release(Shared[ReleaseState]):
    """
    Returns the state of a Helm release.

    + release: its name
    + namespace: its namespace

    .. code:: python

        ReleaseState(status="deployed", revision=1, chart="hami", chart_version="2.9.0", values={...},
                     server_version="v1.36.2+k3s1", nodes=1, servers=1)
    """

    default = ReleaseState

    @override
    def command(self, release: str, namespace: str) -> StringCommand:
        return self.both(release=release, namespace=namespace)

    @override
    def own(self, release: str, namespace: str) -> str:
        return batch.script(PROBES)

    @override
    def asked(self, release: str, namespace: str) -> str:
        return api.script(paths(release, namespace))

    @override
    def process(self, output: list[str]) -> ReleaseState:
        return parse(output)
