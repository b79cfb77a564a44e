"""What a reset would still have to remove, and who would lose a card by it. One command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pyinfra.api import StringCommand
from typing_extensions import override

from hami_k3s import traces
from hami_k3s.facts import api, batch, k3s
from hami_k3s.facts.hami import HANDSHAKE, REGISTER, fullname
from hami_k3s.facts.kubernetes import answer_items, node
from hami_k3s.facts.shared import Shared
from hami_k3s.releases import PACKAGES

ANNOTATIONS = (
    REGISTER,
    HANDSHAKE,
    "hami.io/mutex.lock",
    "hami.io/nvidia-license",
    "hami.io/node-nvidia-score",
)
REGISTRIES = f"{traces.K3S}/registries.yaml"  # told by what lies beside it
ALLOCATED = "hami.io/vgpu-devices-allocated"


@dataclass(frozen=True)
class Leftovers:
    """What is there.

    `k3s`: "ours", "another" installer's, or "". `api` is False where the API does not answer: what it holds is unknown
    then, and so is `pods` (None): the GPU pods on this node that are not verify's, one line each. `database`: k3s has
    kept something. `working`: processes of pods run. `begun`: k3s' removal was cut off. `stale`: k3s runs with other
    files than are there. `hami`: objects of HAMi or verify in the cluster, `marks`: what HAMi has on this host's `node`,
    a word or two each. `paths`: part of the reset -> paths. `packages`: the toolkit's; `held`: those on hold. `answered`
    is False when the host said nothing at all.
    """

    answered: bool = False
    k3s: str = ""
    api: bool = False
    database: bool = False
    working: bool = False
    begun: bool = False
    stale: bool = False
    nodes: tuple[str, ...] = ()
    hami: tuple[str, ...] = ()
    node: str = ""
    marks: tuple[str, ...] = ()
    pods: tuple[str, ...] | None = None
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


_UNITS = "/etc/systemd/system/k3s.service /etc/systemd/system/k3s-agent.service"
# As k3s-killall.sh finds them.
_SHIMS = "grep -qs '^/var/lib/rancher/k3s/data/[^ ]*/containerd-shim' /proc/[0-9]*/cmdline"
PROBES = {
    "hostname": "hostname | tr A-Z a-z",
    "paths": traces.probe(),
    "run": f"find {traces.RUN} -mindepth 1 -maxdepth 1 ! -name k3s.inputs",
    # Any unit that is not ours is another installer's k3s, and its data with it.
    "another": f"for f in {_UNITS}; do [ ! -e $f ] || grep -qF '{traces.OURS}' $f || echo $f; done",
    "own": f"find {traces.K3S} -type f",
    "database": "ls -d /var/lib/rancher/k3s/server/db",
    "working": _SHIMS,
    "packages": "dpkg-query -W -f '${Package} ${db:Status-Status} ${db:Status-Want}\\n' "
    + " ".join(PACKAGES),
    **{name: k3s.PROBES[name] for name in ("service", "inputs", "started")},
}


def paths(release: str, namespace: str, owner: str) -> dict[str, str]:
    """What the API is asked."""
    where, name = f"namespaces/{quote(namespace)}", fullname(release)
    return {
        "nodes": "/api/v1/nodes",
        "release": api.helm_secrets(namespace, release),
        "secret": f"/api/v1/{where}/secrets/{name}-scheduler-tls",
        "lease": f"/apis/coordination.k8s.io/v1/{where}/leases/{name}-scheduler",
        "spaces": api.listing("/api/v1/namespaces", owner),
        "pods": "/api/v1/pods",
    }


def gpu_pods(items: list[dict[str, Any]], name: str, owner: str) -> tuple[str, ...]:
    """Living pods that have a card or part of one, verify's own left out: `default/train (nvidia.com/gpu: 1)`.

    + name: the node
    + owner: label (`key=value`) of verify's pods
    """
    key, _, value = owner.partition("=")
    found = []
    for item in items:
        meta, spec = item.get("metadata") or {}, item.get("spec") or {}
        if spec.get("nodeName") != name or (meta.get("labels") or {}).get(key) == value:
            continue
        if (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        asked: dict[str, str] = {}
        for one in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
            resources = one.get("resources") or {}
            wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
            asked |= {n: str(v) for n, v in wanted.items() if n.startswith("nvidia.com/") and str(v) != "0"}
        allocated = str((meta.get("annotations") or {}).get(ALLOCATED) or "").strip(";: ")
        if asked or allocated:
            shown = ", ".join(f"{name}: {number}" for name, number in sorted(asked.items()))
            found.append(f"{meta.get('namespace')}/{meta.get('name')} ({shown or 'allocated by HAMi'})")
    return tuple(sorted(found))


def _objects(answers: dict[str, batch.Answer]) -> tuple[str, ...]:
    """HAMi's and verify's, in words."""

    def objects(name: str) -> list[dict[str, Any]]:
        return answer_items(answers, name) or []

    found = [f"namespace {one['metadata']['name']}" for one in objects("spaces")]
    found += [f"{kind} {one['metadata']['name']}" for kind in ("secret", "lease") for one in objects(kind)]
    kept = [one["metadata"].get("labels", {}).get("status") for one in objects("release")]
    found += ["release"] if any(status != "uninstalled" for status in kept) else []
    return tuple(found)


def _marks(nodes: list[dict[str, Any]], name: str) -> tuple[str, ...]:
    """HAMi's on this node, in words."""
    found = []
    for one in map(node, nodes):
        if one.name == name:
            found += [f"annotation {key}" for key in ANNOTATIONS if key in one.annotations]
            found += ["label gpu"] if "gpu" in one.labels else []
    return tuple(found)


def parse(output: list[str], owner: str) -> Leftovers:
    """Leftovers from the answers to PROBES and `paths`."""
    answers = batch.parse(output)
    name = answers.get("hostname", batch.NOTHING).value or ""

    def lines(name: str) -> list[str]:
        return answers.get(name, batch.NOTHING).text.splitlines()

    found: dict[str, list[str]] = {"run": lines("run")}
    for line in lines("paths"):
        part, _, path = line.partition(" ")
        found.setdefault(part, []).append(path)
    another = bool(lines("another"))
    ours = {path for some in found.values() for path in some}
    found["yours"] = [path for path in lines("own") if path not in ours and path != REGISTRIES]
    if another:  # the data are its
        found["k3s"] = [path for path in found.get("k3s", []) if path not in traces.MADE["k3s"]]
    nodes, pods = answer_items(answers, "nodes"), answer_items(answers, "pods")
    packages = [[*line.split(), "", "", ""][:3] for line in lines("packages")]
    return Leftovers(
        answered=bool(name),
        k3s="another" if another else "ours" if found.get("k3s") else "",
        api=nodes is not None,
        database=answers.get("database", batch.NOTHING).value is not None,
        working=answers.get("working", batch.NOTHING).status == 0,
        begun=traces.BEGUN in found.get("k3s", []),
        stale=k3s.parse(output).stale,
        nodes=tuple(one.name for one in map(node, nodes or [])),
        hami=_objects(answers),
        node=name,
        marks=_marks(nodes or [], name),
        pods=gpu_pods(pods, name, owner) if pods is not None else None,
        paths={part: tuple(dict.fromkeys(some)) for part, some in found.items() if some},
        packages=tuple(row[0] for row in packages if row[0] and row[1] != "not-installed"),
        held=tuple(row[0] for row in packages if row[2] == "hold"),
    )


class Reset(Shared[Leftovers]):
    """
    Returns what a reset would remove.

    + release: the Helm release
    + namespace: its namespace
    + owner: label of the namespaces and pods that verify makes
    + unit: k3s' service, without `.service`

    .. code:: python

        Leftovers(answered=True, k3s="ours", api=True, hami=("release", "label gpu"), pods=("default/train (nvidia.com/gpu: 1)",),
                  paths={"always": ("/usr/local/vgpu",), ...}, packages=("nvidia-container-toolkit", ...), ...)
    """

    default = Leftovers
    _owner = ""

    @override
    def command(self, release: str, namespace: str, owner: str, unit: str = "k3s") -> StringCommand:
        return self.both(release=release, namespace=namespace, owner=owner, unit=unit)

    @override
    def own(self, release: str, namespace: str, owner: str, unit: str = "k3s") -> str:
        self._owner = owner
        return batch.script({**PROBES, "service": PROBES["service"].replace("UNIT", unit)})

    @override
    def asked(self, release: str, namespace: str, owner: str, unit: str = "k3s") -> str:
        return api.script(paths(release, namespace, owner))

    @override
    def process(self, output: list[str]) -> Leftovers:
        return parse(output, self._owner)
