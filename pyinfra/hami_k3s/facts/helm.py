"""A Helm release, and what its values depend on: the server's version and the number of nodes."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

from hami_k3s.facts import batch
from hami_k3s.facts.k3s import KUBECTL
from hami_k3s.transient import FOLDER

KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
# Both majors know these filters; without them helm 3 hides pending releases.
EVERY_STATE = "--deployed --failed --pending --uninstalling --superseded --uninstalled"


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
    helm_version: str | None = None
    server_version: str | None = None
    nodes: int | None = None
    age_s: int | None = None  # seconds since helm last touched the release, by the host's clock
    working: bool = False  # a helm process is at work on this host
    cut_off: bool = False  # a helm that this project started here was killed
    error: str | None = None


def probes(helm: str, release: str, namespace: str) -> dict[str, str]:
    """The questions about one release, asked with the helm binary at this path."""
    tool = f"KUBECONFIG={KUBECONFIG} timeout 30 {shlex.quote(helm)}"
    where = f"-n {shlex.quote(namespace)} -o json"
    name = shlex.quote(release)
    return {
        "helm": f"{tool} version --template '{{{{.Version}}}}'",
        "list": f"{tool} list {where} -f {shlex.quote('^' + release + '$')} {EVERY_STATE} 2>&1",
        "metadata": f"{tool} get metadata {name} {where}",
        "values": f"{tool} get values {name} {where}",
        "history": f"{tool} history {name} {where}",
        "now": "date +%s",
        "working": "for p in /proc/[0-9]*/comm; do case $(cat $p) in helm|helm-v*) echo $p;; esac; done; true",
        "cut_off": f"test -e {FOLDER}/helm/script && test ! -e {FOLDER}/helm/rc && echo yes",
        "version": f"{KUBECTL} version -o json",
        "nodes": f"{KUBECTL} get nodes -o name",
    }


def _listed(answer: batch.Answer) -> list[dict[str, Any]] | None:
    """The releases. stderr is in the same answer: helm 3 warns there of a kubeconfig that others may read."""
    lines = [line for line in (answer.value or "").splitlines() if line.startswith("[")]
    return batch.mappings(lines[-1]) if lines else None


def _age(updated: str, now: str) -> int | None:
    """Seconds from helm's `2026-07-07 10:25:15.123456789 +0000 UTC` to `date +%s`."""
    match = re.match(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\S* ([+-]\d{4})", updated)
    if not match or not now.strip().isdigit():
        return None
    return int(now) - int(datetime.strptime(" ".join(match.groups()), "%Y-%m-%d %H:%M:%S %z").timestamp())


def parse_server_version(text: str) -> str | None:
    """`gitVersion` of the server from `kubectl version -o json`; None when only the client answered."""
    version = batch.mapping(text).get("serverVersion")
    found = version.get("gitVersion") if isinstance(version, dict) else None
    return str(found) if found else None


def parse(output: list[str]) -> ReleaseState:
    """ReleaseState from the answers to `probes`."""
    answers = batch.parse(output)
    listed = _listed(answers.get("list", batch.NOTHING))
    common: dict[str, Any] = {
        "helm_version": answers.get("helm", batch.NOTHING).value,
        "server_version": parse_server_version(answers.get("version", batch.NOTHING).text),
        "nodes": len(names.split()) if (names := answers.get("nodes", batch.NOTHING).value) else None,
    }
    common["working"] = answers.get("working", batch.NOTHING).value is not None
    common["cut_off"] = answers.get("cut_off", batch.NOTHING).value == "yes"
    if listed is None:
        return ReleaseState(error=answers.get("list", batch.NOTHING).text or "no answer", **common)
    if not listed:
        return ReleaseState(status="absent", **common)
    newest = max(listed, key=lambda item: int(item["revision"]))

    def value(name: str) -> str | None:
        return answers.get(name, batch.NOTHING).value

    metadata, history = batch.mapping(value("metadata")), batch.mappings(value("history")) or []
    good = [int(item["revision"]) for item in history if item.get("status") in ("deployed", "superseded")]
    return ReleaseState(
        status=newest["status"],
        revision=int(newest["revision"]),
        chart=metadata.get("chart"),
        chart_version=metadata.get("version"),
        values=batch.mapping(value("values")),
        good_revision=max(good, default=None),
        age_s=_age(newest.get("updated", ""), answers.get("now", batch.NOTHING).text),
        **common,
    )


class Release(FactBase[ReleaseState]):
    """
    Returns the state of a Helm release.

    + helm: path of the helm binary on the host
    + release: its name
    + namespace: its namespace

    .. code:: python

        ReleaseState(status="deployed", revision=1, chart="hami", chart_version="2.9.0", values={...},
                     server_version="v1.36.2+k3s1", nodes=1, helm_version="v4.2.3")
    """

    default = ReleaseState

    @override
    def command(self, helm: str, release: str, namespace: str) -> StringCommand:
        return StringCommand(batch.script(probes(helm, release, namespace)))

    @override
    def process(self, output: list[str]) -> ReleaseState:
        return parse(output)
