"""verify's own pods: a namespace of the run's own, made, watched and always removed."""

from __future__ import annotations

import json
import secrets
import shlex
from dataclasses import dataclass, field
from typing import Any

from pyinfra.api import Host

from hami_k3s import cluster
from hami_k3s.facts.kubernetes import K3S_KUBECTL, KUBECTL, items
from hami_k3s.isolation.evidence import Event, Pod
from hami_k3s.isolation.parse import ParseError, parse_allocated
from hami_k3s.remote import Result, arguments
from hami_k3s.templating import render

ALLOCATED = "hami.io/vgpu-devices-allocated"
OWNER = "app.kubernetes.io/managed-by=pyinfra-hami-k3s"
# kubectl exec has no --request-timeout of its own: the callers' limit ends it.
EXEC = K3S_KUBECTL


@dataclass(frozen=True)
class Wanted:
    """A pod to make: MiB of the card (0: no request), and per container its environment."""

    name: str
    mib: int
    containers: dict[str, dict[str, str]] = field(default_factory=lambda: {"cuda": {}})


@dataclass(frozen=True)
class Space:
    """The namespace of one run on one node."""

    host: Host
    node: str
    name: str
    given: dict[str, Any]  # sudo and the like: the removal may come after the operation was interrupted

    def kubectl(self, arguments: str, stdin: str | None = None, timeout: int = 60) -> Result:
        """kubectl in this namespace."""
        return cluster.ask(self.host, f"{KUBECTL} -n {self.name} {arguments}", stdin, timeout)

    def create(self) -> Result:
        """Make the namespace; it names its node, so that a later run there finds what a killed one left."""
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.name, "labels": labels(self.node)},
        }
        return cluster.ask(self.host, f"{KUBECTL} create -f -", json.dumps(manifest))

    def start(self, pods: list[Wanted], image: str, uuid: str) -> Result:
        """Create pods on this node, those with a share of a card on this card."""
        text = render(
            "verify-pods.yaml",
            pods=[
                {
                    "name": pod.name,
                    "mib": pod.mib,
                    "containers": [
                        {"name": name, "env": [{"name": key, "value": value} for key, value in env.items()]}
                        for name, env in pod.containers.items()
                    ],
                }
                for pod in pods
            ],
            namespace=self.name,
            labels=labels(self.node),
            node=self.node,
            image=image,
            uuid=uuid,
        )
        return self.kubectl("create -f -", text)

    def look(self) -> dict[str, Pod] | None:
        """The pods with their events, by name; None when the API did not answer."""
        pods = self.kubectl("get pods -o json")
        events = self.kubectl("get events -o json")
        if not pods.ok or not events.ok:
            return None
        said = items(events.stdout)
        return {item["metadata"]["name"]: _pod(item, said) for item in items(pods.stdout)}

    def exec(self, pod: str, script: str, timeout: int = 60, container: str = "") -> Result:
        """A shell script in a pod."""
        where = f"-c {container} " if container else ""
        command = f"{EXEC} exec -n {self.name} {pod} {where}-- sh -c {shlex.quote(script)}"
        return cluster.ask(self.host, command, timeout=timeout)

    def copy(self, source: str, targets: list[str], path: str) -> Result:
        """An executable file of one pod into others."""
        put = shlex.quote(f"cat >{path} && chmod 755 {path}")
        steps = [
            f"{EXEC} exec -n {self.name} {source} -- cat {path} | {EXEC} exec -i -n {self.name} {pod} -- sh -c {put}"
            for pod in targets
        ]
        return cluster.ask(self.host, " && ".join(steps), timeout=120)

    def delete(self, *names: str) -> Result:
        """Delete pods and wait until they are gone."""
        return cluster.ask(
            self.host,
            f"{K3S_KUBECTL} delete pod -n {self.name} {' '.join(names)} --ignore-not-found --timeout=60s",
            timeout=70,
        )

    def put(self, pod: str, path: str, text: str) -> Result:
        """Write a file in a pod."""
        command = f"{EXEC} exec -i -n {self.name} {pod} -- sh -c {shlex.quote(f'cat >{shlex.quote(path)}')}"
        return cluster.ask(self.host, command, text)

    def remove(self) -> Result:
        """Delete the namespace with all in it. An API server that is away for a moment is waited for.

        Forced: on a node that is not Ready nobody would confirm the end of a pod, and the namespace would stay.
        """
        pods = f"{K3S_KUBECTL} delete pods --all -n {self.name} --force --grace-period=0 --timeout=30s"
        space = f"{K3S_KUBECTL} delete namespace {self.name} --ignore-not-found --timeout=60s"
        tries = f"for i in 1 2 3 4 5 6; do {pods} >/dev/null 2>&1; {space} && exit 0; sleep 10; done; exit 1"
        return cluster.ask(self.host, tries, timeout=180, given=self.given)


def space(host: Host, node: str) -> Space:
    """A namespace name of this run's own."""
    return Space(host, node, f"hami-k3s-verify-{secrets.token_hex(4)}", arguments(host))


def labels(node: str) -> dict[str, str]:
    """Labels of all that a run makes."""
    key, value = OWNER.split("=")
    return {key: value, "hami-k3s/node": node}


def node_ready(host: Host, node: str) -> bool | None:
    """Is the node Ready now; None when the API does not answer."""
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    result = cluster.ask(host, f"{KUBECTL} get node {shlex.quote(node)} -o jsonpath='{path}'")
    return result.stdout.strip() == "True" if result.ok else None


def remove_leftovers(host: Host, node: str) -> str:
    """Remove what killed runs left on this node; says what it removed."""
    selector = f"{OWNER},hami-k3s/node={node}"
    found = cluster.ask(host, f"{KUBECTL} get namespaces -l {selector} -o name").stdout.split()
    if found:
        cluster.ask(
            host, f"{K3S_KUBECTL} delete {' '.join(found)} --ignore-not-found --timeout=80s", timeout=90
        )
    return ", ".join(name.removeprefix("namespace/") for name in found)


def granted_to_others(host: Host, node: str, uuid: str) -> int:
    """MiB of the card that HAMi has granted to living pods on this node."""
    selector = f"--field-selector spec.nodeName={node}"
    found = cluster.ask(host, f"{KUBECTL} get pods -A {selector} -o json")
    total = 0
    for item in items(found.stdout):
        if item.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        total += sum(one.memory_mib for one in _allocated(item) if one.uuid == uuid)
    return total


def _allocated(item: dict[str, Any]) -> tuple[Any, ...]:
    try:
        return parse_allocated((item["metadata"].get("annotations") or {}).get(ALLOCATED, ""))
    except ParseError:
        return ()


def _pod(item: dict[str, Any], events: list[dict[str, Any]]) -> Pod:
    name = item["metadata"]["name"]
    about = [one for one in events if one.get("involvedObject", {}).get("name") == name]
    return Pod(
        name=name,
        phase=item.get("status", {}).get("phase", "Unknown"),
        node=item["spec"].get("nodeName"),
        allocated=_allocated(item),
        events=tuple(map(_event, about)),
        scheduler=item["spec"].get("schedulerName"),
        uid=item["metadata"].get("uid", ""),
        reason=_reason(item),
    )


def _reason(item: dict[str, Any]) -> str:
    """Why kubelet does not run the pod: its eviction, or what its container waits for; "" when it says nothing."""
    status = item.get("status", {})
    said = [status]
    for one in status.get("containerStatuses") or []:
        said += [one.get("state", {}).get(kind) or {} for kind in ("waiting", "terminated")]
    words = [f"{one['reason']}: {one.get('message', '')}".rstrip(": ") for one in said if one.get("reason")]
    usual = ("ContainerCreating", "PodInitializing")
    return next((text[:300] for text in words if text not in usual), "")


def _event(item: dict[str, Any]) -> Event:
    return Event(
        reason=item.get("reason", ""),
        source=item.get("source", {}).get("component") or item.get("reportingComponent") or "",
        message=item.get("message", ""),
        type=item.get("type", "Normal"),
        count=int(item.get("count") or (item.get("series") or {}).get("count") or 1),
    )
