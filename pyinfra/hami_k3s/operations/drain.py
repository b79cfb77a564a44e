"""A node taken out of service and put back: cordoned with a mark, GPU pods evicted by the API."""

from __future__ import annotations

import json
import shlex
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pyinfra.api import Host, State

from hami_k3s import cluster
from hami_k3s.facts import batch
from hami_k3s.facts.kubernetes import KUBECTL, items
from hami_k3s.facts.reset import gpu_pods
from hami_k3s.proof.pods import OWNER
from hami_k3s.settings import Settings
from hami_k3s.waits import Look, fail, until

# On nodes that this project cordoned; others' cordons stay.
MARK = "hami-k3s/cordoned"
PATIENCE = 60  # seconds for an API that is silent for a moment


def pods_on(host: Host, node: str) -> list[dict[str, Any]] | None:
    """Every pod of a node; None when the API does not answer."""
    path = f"/api/v1/pods?fieldSelector={quote(f'spec.nodeName={node}')}"
    said = cluster.ask(host, f"{KUBECTL} get --raw {shlex.quote(path)}")
    return items(said.stdout) if said.ok else None


def users(host: Host, node: str) -> tuple[str, ...] | None:
    """The GPU pods of a node, one line each, verify's left out; None when the API does not answer."""
    found = pods_on(host, node)
    return gpu_pods(found, node, OWNER) if found is not None else None


def _do(host: Host, what: str, script: str) -> str:
    """Why it was not done, or "". Tried again while no server answers."""
    said: list[str] = [""]

    def look() -> Look:
        result = cluster.ask(host, script)
        said[0] = "" if result.ok else result.stderr or result.stdout or "no answer"
        return Look("done", what) if result.ok else Look("wait", said[0])

    until(host, what, PATIENCE, look, "k3s_ready_timeout")
    return said[0]


def cordon(state: State, host: Host, node: str) -> bool:
    """Keep new pods away, and mark that it was us; a node that somebody else cordoned is left without a mark."""
    name = shlex.quote(node)
    found = batch.mapping(cluster.ask(host, f"{KUBECTL} get node {name} -o json").stdout)
    meta, spec = found.get("metadata") or {}, found.get("spec") or {}
    marked = MARK in (meta.get("annotations") or {})
    if spec.get("unschedulable") and not marked:
        host.log(f"    node {node} was cordoned by somebody else, and stays so")
        return True
    if spec.get("unschedulable"):
        return True
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    script = f"{KUBECTL} annotate node {name} --overwrite {MARK}={now} && {KUBECTL} cordon {name}"
    why = _do(host, "cordon", script)
    return not why or fail(state, host, f"node {node} could not be cordoned: {why}")


def uncordon(state: State, host: Host, node: str) -> bool:
    """Put a node back that `cordon` took out."""
    name = shlex.quote(node)
    found = batch.mapping(cluster.ask(host, f"{KUBECTL} get node {name} -o json").stdout)
    meta = found.get("metadata") or {}
    if found and MARK not in (meta.get("annotations") or {}):
        return True
    why = _do(host, "uncordon", f"{KUBECTL} uncordon {name} && {KUBECTL} annotate node {name} {MARK}-")
    return not why or fail(state, host, f"node {node} could not be put back (kubectl uncordon {node}): {why}")


def evict(state: State, host: Host, settings: Settings, node: str) -> bool:
    """Evict the GPU pods and wait until they have ended. False, with the reason, when one is still there at the limit."""
    refused: dict[str, str] = {}
    asked: set[str] = set()
    begun = time.monotonic()

    def look() -> Look:
        every = pods_on(host, node)
        if every is None:
            return Look("wait", "the API does not answer")
        there = [one.split(" ")[0] for one in gpu_pods(every, node, OWNER)]
        for name in set(refused) - set(there):
            del refused[name]
        going = {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in every
            if one["metadata"].get("deletionTimestamp")
        }
        for name in there:
            if name in going:
                refused.pop(name, None)
            elif why := _evict(host, name):
                refused[name] = why
            elif name not in asked:
                asked.add(name)
                host.log(f"    evicted {name}")
        if not there:
            return Look("done", f"no GPU pod is left on {node}")
        reasons = "; ".join(f"{name}: {why}" for name, why in sorted(refused.items()))
        return Look("wait", reasons or f"ending: {', '.join(there)}")

    def advice() -> str:
        return (
            "A PodDisruptionBudget that allows no disruption holds its pods for ever: scale up what it guards, or end the "
            "pods yourself; a DaemonSet starts its pods anew on the same node: delete it, or take the node out of it"
        )

    done = until(host, "GPU pods", settings.upgrade_drain_timeout, look, "upgrade_drain_timeout", advice)
    if done and asked:
        host.log(f"    {len(asked)} GPU pods left {node} in {time.monotonic() - begun:.0f} s")
    return done


def _evict(host: Host, name: str) -> str:
    """Why the API refused the eviction, or ""."""
    space, _, pod = name.partition("/")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": space},
    }
    path = f"/api/v1/namespaces/{space}/pods/{pod}/eviction"
    said = cluster.ask(host, f"{KUBECTL} create --raw {shlex.quote(path)} -f -", stdin=json.dumps(body))
    return "" if said.ok or "not found" in said.stderr else (said.stderr or said.stdout).strip()[:300]
