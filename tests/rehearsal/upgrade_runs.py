"""Clusters of an older release with GPU pods on them, and which nodes were out of service while they were upgraded."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from rehearsal import access
from rehearsal.www import sha256
from tests.rehearsal.conftest import Node
from tests.rehearsal.deploying import GPU_NODE, Ran, deploy

UPGRADE = "deploys/upgrade.py"
OLD, NEW = "v1.35.6+k3s1", "v1.36.2+k3s1"
OLD_CHART = "2.6.1"
UNSCHEDULABLE = "{range .items[?(@.spec.unschedulable==true)]}{.metadata.name} {end}"
STARTED = (
    "{range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount} {end}"
)


class Cluster:
    """The nodes by name, and the fleet file."""

    def __init__(self, first: Node, file: Path) -> None:
        self.nodes = {name: Node(first.state, name) for name in first.names}
        content = yaml.safe_load(first.fleet.read_text())
        content["settings"]["report_folder"] = str(file.parent / "reports")
        file.write_text(yaml.safe_dump(content))
        self.file, self.server = file, self.nodes["s1"]
        self.gpu = [name for name in self.nodes if not name.startswith("s")]

    def converge(self, chart: str | None = None) -> Ran:
        """At the older k3s, and with another chart."""
        data: dict[str, object] = {"k3s_version": OLD}
        if chart is not None:
            archive = self.server.state.folder / "www/right/HAMi" / f"hami-{chart}.tgz"
            data |= {"hami_chart_version": chart, "hami_chart_sha256": sha256(archive)}
        ran = deploy(self.file, GPU_NODE, **data)
        assert ran.status == 0, ran.text
        return ran

    def train(self, node: str) -> None:
        """A Deployment that wants one card of this node, and has it."""
        limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2000}
        container = {
            "name": "main",
            "image": "docker.io/library/python:3.12-slim",
            "command": ["sleep", "infinity"],
        }
        labels = {"app": f"train-{node}"}
        spec = {
            "containers": [container | {"resources": {"limits": limits}}],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"train-{node}"}}
        made["spec"] = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}  # type: ignore[assignment]
        said = self.server.run("k3s kubectl apply -f -", stdin=json.dumps(made))
        assert said.ok, said.stderr
        self.trains(node)

    def trains(self, node: str, seconds: int = 60) -> None:
        """Waits until that Deployment's pod runs."""
        self.server.kubectl(f"rollout status deployment/train-{node} --timeout={seconds}s")

    def gpu_pods(self) -> str:
        """Name, UID and restarts of every pod of the default namespace."""
        return self.server.kubectl(f"get pods -o jsonpath='{STARTED}'")

    def versions(self) -> set[str]:
        path = "{.items[*].status.nodeInfo.kubeletVersion}"
        return set(self.server.kubectl(f"get nodes -o jsonpath='{path}'").split())

    def scheduler_image(self) -> str:
        path = '{.items[*].spec.containers[?(@.name=="kube-scheduler")].image}'
        selector = "-l app.kubernetes.io/component=hami-scheduler"
        return self.server.kubectl(f"-n kube-system get pods {selector} -o jsonpath='{path}'").strip()

    def marks(self) -> str:
        """Nodes that are out of service, or marked so."""
        return self.server.kubectl(
            f"get nodes -o jsonpath='{UNSCHEDULABLE}{{.items[*].metadata.annotations.hami-k3s/cordoned}}'"
        ).strip()

    def hurry(self) -> None:
        """HAMi takes a node out of its pool for a minute whose plugin is away when its last sign of life is old."""
        self.server.kubectl("annotate node -l gpu=on hami.io/node-handshake-")

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[set[str]]]:
        """Which nodes are out of service, each time this changes."""
        loop = f"while sleep 0.3; do k3s kubectl get nodes -o jsonpath='{UNSCHEDULABLE}' && echo; done 2>/dev/null"
        command = [*access.ssh_command(self.server.state, self.server.name, "root"), loop]
        seen: list[set[str]] = []
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        try:
            yield seen
        finally:
            process.terminate()
            assert process.stdout is not None
            for line in process.stdout:
                if not seen or seen[-1] != set(line.split()):
                    seen.append(set(line.split()))
            process.wait()
