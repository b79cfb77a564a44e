"""The versions of everything under the proof, read on the host; None for what does not say."""

from __future__ import annotations

import re
import shlex

from pyinfra.api import Host

from hami_k3s import cluster
from hami_k3s.facts import batch
from hami_k3s.facts.kubernetes import KUBECTL
from hami_k3s.remote import run

ORDER = ("os", "kernel", "driver", "container_toolkit", "k3s", "containerd", "helm", "hami")
PROBES = {
    "os": '. /etc/os-release; echo "$PRETTY_NAME"',
    "kernel": "uname -r",
    "driver": "nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1",
    "container_toolkit": "nvidia-container-runtime --version | head -n 1",
    "k3s": "k3s --version | head -n 1",
    "helm": "ls /usr/local/bin/helm* /usr/local/lib/hami-k3s/helm* 2>/dev/null | grep -o 'v[0-9][0-9.]*[0-9]' | tail -n 1",
}
ON_SERVER = {
    "containerd": f"{KUBECTL} get node NODE -o jsonpath={{.status.nodeInfo.containerRuntimeVersion}}",
    "hami": f"{KUBECTL} get pods -A -l app.kubernetes.io/component=hami-scheduler "
    "-o jsonpath='{.items[0].spec.containers[*].image}'",
}
_NUMBER = re.compile(r"v?\d+\.\d+[\w.+-]*")


def read(host: Host, node: str) -> dict[str, str | None]:
    """Name -> version, in the order of the lab. `node`: the host's name in its cluster."""
    asked = {name: text.replace("NODE", shlex.quote(node)) for name, text in ON_SERVER.items()}
    lines = run(host, batch.script(PROBES)).stdout + "\n" + cluster.ask(host, batch.script(asked)).stdout
    answers = batch.parse(lines.splitlines())
    found: dict[str, str | None] = {}
    for name in ORDER:
        text = answers.get(name, batch.NOTHING).value
        match = _NUMBER.search(text or "")
        whole = name in ("os", "hami")
        found[name] = text if whole or text is None else (match.group(0) if match else None)
    return found
