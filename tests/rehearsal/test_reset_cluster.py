"""The way back from a cluster: a node leaves it, a pod with a card keeps it, and then all of it goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rehearsal import trees
from tests.rehearsal.conftest import KUBECTL, Node
from tests.rehearsal.deploying import GPU_NODE, RESET, Ran, deploy
from tests.rehearsal.test_there_and_back import ALL, DRIFT, GPU_POD

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.skipif(
        "REHEARSAL_CLUSTER" not in os.environ,
        reason="it takes a cluster of its own: run with REHEARSAL_CLUSTER=1",
    ),
]
SHAPE = """
clusters:
  - name: small
    servers: [{name: s1}]
    agents: [{name: a1, card: rtx-pro-6000}, {name: a2, card: l4}]
"""


def nodes_of(server: Node) -> set[str]:
    return set(server.kubectl("get nodes -o jsonpath='{.items[*].metadata.name}'").split())


def test_one_leaves_then_all_of_it_goes(rehearsal: Any, tmp_path: Path) -> None:
    (tmp_path / "shape.yaml").write_text(SHAPE)
    with rehearsal("small", fleet=tmp_path / "shape.yaml") as first:
        file = tmp_path / "fleet.yaml"
        content = yaml.safe_load(first.fleet.read_text())
        content["settings"]["report_folder"] = str(tmp_path / "reports")
        file.write_text(yaml.safe_dump(content))
        nodes = {name: Node(first.state, name) for name in first.names}
        before = {name: trees.listing(node) for name, node in nodes.items()}
        ran = deploy(file, GPU_NODE)
        assert ran.status == 0, ran.text
        ran = deploy(file, DRIFT)
        assert ran.status == 0, ran.text
        assert "3 hosts: 3 as wanted, 0 differ" in ran.text
        _a_node_is_an_ordinary_one_again(file, nodes)
        _a_pod_with_a_card_keeps_its_node_and_the_server(file, nodes)
        ran = deploy(file, RESET, **ALL, reset_force="true")
        assert ran.status == 0, ran.text
        for name, node in nodes.items():
            differ, line = trees.report(before[name], trees.listing(node))
            assert differ == [], line
        ran = deploy(file, RESET, **ALL)
        assert (ran.status, ran.changed) == (0, [])


def _a_node_is_an_ordinary_one_again(file: Path, nodes: dict[str, Node]) -> None:
    """HAMi leaves one agent, and stays for the other."""
    ran = deploy(file, RESET, "--limit", "a2")
    assert ran.status == 0, ran.text
    assert "stays: HAMi, for the other hosts of its cluster: " in ran.text
    server = nodes["s1"]
    shown = server.kubectl("get node a2 -o jsonpath='{.metadata.annotations}{.metadata.labels}'")
    assert "hami.io/" not in shown
    plugins = server.kubectl("get pods -A -l app.kubernetes.io/component=hami-device-plugin -o wide")
    assert " a1 " in plugins
    assert " a2 " not in plugins
    assert "node-ip" in nodes["a2"].run("cat /etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml").stdout
    assert nodes_of(server) == {"s1", "a1", "a2"}
    ran = deploy(file, RESET, "--limit", "a2")
    assert (ran.status, ran.changed) == (0, [])


def _a_pod_with_a_card_keeps_its_node_and_the_server(file: Path, nodes: dict[str, Node]) -> Ran:
    """The agent without one goes all the same, and its cluster forgets it."""
    server = nodes["s1"]
    on_a1 = GPU_POD.replace("spec:\n", "spec:\n  nodeSelector: {kubernetes.io/hostname: a1}\n", 1)
    assert server.run(f"{KUBECTL} apply -f -", stdin=on_a1).ok
    server.kubectl("wait --for=condition=Ready --timeout=60s pod/train")
    uid = server.kubectl("get pod train -o jsonpath='{.metadata.uid}'")
    ran = deploy(file, RESET, **ALL)
    assert ran.status != 0
    assert "default/train (nvidia.com/gpu: 1" in ran.on("a1")
    assert "k3s stays on this server: others of its cluster would lose their last server" in ran.on("s1")
    assert nodes_of(server) == {"s1", "a1"}
    assert nodes["a2"].run("! ls /etc/rancher /var/lib/rancher /usr/local/bin/k3s").ok
    assert server.kubectl("get pod train -o jsonpath='{.metadata.uid} {.status.phase}'") == f"{uid} Running"
    return ran
