"""What a reset would still have to remove."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from pyinfra.api import FactBase, StringCommand
from typing_extensions import override

from hami_k3s.facts import batch
from hami_k3s.facts.hami import HANDSHAKE, REGISTER, fullname
from hami_k3s.facts.helm import EVERY_STATE, KUBECONFIG
from hami_k3s.facts.k3s import KUBECTL
from hami_k3s.facts.kubernetes import items, node

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


def probes(helm: str, release: str, namespace: str, owner: str) -> dict[str, str]:
    """The questions."""
    where = f"-n {shlex.quote(namespace)}"
    name = fullname(release)
    return {
        "k3s": "ls /usr/local/bin/k3s-uninstall.sh",
        "node": f'{KUBECTL} get node "$(hostname | tr A-Z a-z)" -o json',
        "release": f"KUBECONFIG={KUBECONFIG} timeout 30 {shlex.quote(helm)} list {where} -o json"
        f" -f {shlex.quote('^' + release + '$')} {EVERY_STATE}",
        "objects": f"{KUBECTL} {where} get secret/{name}-scheduler-tls lease/{name}-scheduler --ignore-not-found -o name",
        "spaces": f"{KUBECTL} get namespaces -l {shlex.quote(owner)} -o name",
    }


def parse(output: list[str]) -> Leftovers:
    """Leftovers from the answers to `probes`."""
    answers = batch.parse(output)

    def words(name: str) -> list[str]:
        return (
            answers.get(name, batch.NOTHING).text.split()
            if answers.get(name, batch.NOTHING).status == 0
            else []
        )

    found = words("spaces") + words("objects")
    listed = batch.mappings(answers.get("release", batch.NOTHING).value) or []
    found += [f"release {one['name']}" for one in listed if one.get("status") != "uninstalled"]
    nodes = items(answers.get("node", batch.NOTHING).text)
    for item in nodes:
        own = node(item)
        found += [f"annotation {key}" for key in ANNOTATIONS if key in own.annotations]
        found += ["label gpu"] if "gpu" in own.labels else []
    return Leftovers(k3s=bool(words("k3s")), api=bool(nodes), hami=tuple(found))


class Reset(FactBase[Leftovers]):
    """
    Returns what a reset would remove.

    + helm: path of the helm binary on the host
    + release: the Helm release
    + namespace: its namespace
    + owner: label of the namespaces that verify makes

    .. code:: python

        Leftovers(k3s=True, api=True, hami=("release hami", "label gpu"))
    """

    default = Leftovers

    @override
    def command(self, helm: str, release: str, namespace: str, owner: str) -> StringCommand:
        return StringCommand(batch.script(probes(helm, release, namespace, owner)))

    @override
    def process(self, output: list[str]) -> Leftovers:
        return parse(output)
