"""From one k3s minor version to the next with GPU pods at work: refused with their names, then done node by node."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.deploying import LAB, Ran, deploy, start, verdicts, verify
from tests.rehearsal.upgrade_runs import NEW, OLD, OLD_CHART, UPGRADE, Cluster

pytestmark = pytest.mark.rehearsal
SMALL = """
clusters:
  - name: edge
    servers: [{name: s1}]
    agents: [{name: a1, card: l4}, {name: a2, card: l4}]
"""
LARGE = """
hosts: [{name: solo, card: h200}]
clusters:
  - name: edge
    servers: [{name: s1}]
    agents: [{name: a1, card: l4}, {name: a2, card: l4}, {name: a3, card: l4}]
"""
SERVERS = (
    "clusters: [{name: edge, servers: [{name: s1}, {name: s2}, {name: s3}], agents: [{name: a1, card: l4}]}]"
)
whole = pytest.mark.skipif(
    "REHEARSAL_UPGRADE" not in os.environ, reason="takes ten minutes: run with REHEARSAL_UPGRADE=1"
)


@pytest.fixture(scope="module")
def edge(rehearsal: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("upgrade")
    (folder / "shape.yaml").write_text(SMALL)
    with rehearsal("upgrade", fleet=folder / "shape.yaml") as first:
        made = Cluster(first, folder / "fleet.yaml")
        made.converge()
        made.train("a1")
        yield made


def test_gpu_pods_are_named_and_nothing_is_touched(edge: Cluster) -> None:
    pods, standing = edge.gpu_pods(), edge.server.standing()
    ran = deploy(edge.file, UPGRADE)
    assert ran.status == 1
    (name,) = [word for word in pods.split() if word.startswith("train-")]
    assert f"default/{name} (nvidia.com/gpu: 1" in ran.on("a1")
    assert "--data upgrade_drain=true" in ran.on("a1")
    for other in ("s1", "a2"):
        assert "a1 of its cluster cannot be upgraded: nothing was changed on this host" in ran.on(other)
    assert ran.last == "Upgrade | May be upgraded"
    assert edge.gpu_pods() == pods
    assert edge.server.standing() == standing
    assert edge.versions() == {OLD}
    for node in edge.nodes.values():
        assert not node.run(f"test -e /usr/local/lib/hami-k3s/k3s-{NEW}").ok


def test_with_upgrade_drain_every_node_has_the_new_version_and_a_second_run_changes_nothing(
    edge: Cluster,
) -> None:
    edge.hurry()
    with edge.watched() as out:
        ran = deploy(edge.file, UPGRADE, upgrade_drain=True, upgrade_parallel=2)
    assert ran.status == 0, ran.text
    assert edge.versions() == {NEW}
    assert edge.scheduler_image().endswith(":v1.36.2")
    assert set().union(*out) == {"a1", "a2"}
    assert edge.marks() == ""
    edge.trains("a1")
    copies = edge.server.run(
        "cd /var/lib/rancher/k3s/server/hami-k3s-copies && ls -d *; find . -name token"
    ).stdout
    assert f"Z-{OLD}" in copies
    assert copies.strip().endswith("/token")
    pods, standing = edge.gpu_pods(), edge.server.standing()
    again = deploy(edge.file, UPGRADE)
    assert again.status == 0, again.text
    assert again.changed == []
    assert (edge.gpu_pods(), edge.server.standing()) == (pods, standing)


@pytest.fixture
def large(rehearsal: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    (tmp_path / "shape.yaml").write_text(LARGE)
    with rehearsal(
        f"upg{request.node.callspec.id if hasattr(request.node, 'callspec') else ''}",
        fleet=tmp_path / "shape.yaml",
    ) as first:
        yield Cluster(first, tmp_path / "fleet.yaml")


@whole
@pytest.mark.parametrize("parallel", [1, 2, 3])
def test_k3s_and_chart_at_once_with_so_many_nodes_out_and_no_more(
    large: Cluster, parallel: int, tmp_path: Path
) -> None:
    large.converge(OLD_CHART)
    for name in ("a1", "a2", "a3"):
        large.train(name)
    with large.watched() as out:
        ran = deploy(large.file, UPGRADE, upgrade_drain=True, upgrade_parallel=parallel)
    assert ran.status == 0, ran.text
    assert max(map(len, out)) == parallel, out
    assert set().union(*out) == {"a1", "a2", "a3"}
    assert large.versions() == {NEW}
    assert large.scheduler_image().endswith(":v1.36.2")
    path = "{.spec.updateStrategy.type} {.spec.template.spec.containers[0].image}"
    plugin = large.server.kubectl(f"-n kube-system get ds hami-device-plugin -o jsonpath='{path}'")
    assert plugin.split() == ["RollingUpdate", "docker.io/projecthami/hami:v2.9.0"]
    for name in ("a1", "a2", "a3"):
        large.trains(name)
    again = deploy(large.file, UPGRADE)
    assert again.status == 0, again.text
    assert again.changed == []
    _, reports = verify(large.file, tmp_path / "reports", verify_timeout=60)
    assert {name: verdicts(report) for name, report in reports.items()} == {
        name: dict.fromkeys(LAB, "pass") for name in ("a1", "a2", "a3", "solo")
    }


def _until_said(process: Any, words: str) -> str:
    text = ""
    for line in process.stdout:
        text += line
        if words in line:
            return text
    raise AssertionError(text)


@whole
def test_a_budget_stops_the_roll_and_a_killed_run_is_gone_on_with(large: Cluster) -> None:
    large.converge()
    for name in ("a1", "a2", "a3"):
        large.train(name)
    guard = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}}
    guard["spec"] = {
        "minAvailable": 3,
        "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    }  # type: ignore[assignment]
    assert large.server.run("k3s kubectl apply -f -", stdin=json.dumps(guard)).ok
    before = large.gpu_pods()
    ran: Ran = deploy(large.file, UPGRADE, upgrade_drain=True, upgrade_drain_timeout=8)
    assert ran.status == 1
    assert ran.text.count("would violate the pod's disruption budget") >= 1
    stopped = [name for name in ("a1", "a2", "a3") if "not started, this host is as it was" in ran.on(name)]
    assert len(stopped) == 2, ran.text
    assert large.gpu_pods() == before
    assert large.marks() == ""
    assert large.versions() == {OLD, NEW}  # the server alone
    large.server.kubectl("delete pdb keep")
    words = ("--data", "upgrade_drain=true", "--data", "upgrade_parallel=2")
    process = start(large.file, UPGRADE, *words)
    _until_said(process, "GPU pods left")
    time.sleep(2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert large.marks() != ""
    done = deploy(large.file, UPGRADE, *words)
    assert done.status == 0, done.text
    assert large.marks() == ""
    assert large.versions() == {NEW}
    assert deploy(large.file, UPGRADE).changed == []


@whole
def test_servers_one_at_a_time_after_a_snapshot(rehearsal: Any, tmp_path: Path) -> None:
    (tmp_path / "shape.yaml").write_text(SERVERS)
    with rehearsal("upg-ha", fleet=tmp_path / "shape.yaml") as first:
        made = Cluster(first, tmp_path / "fleet.yaml")
        made.converge()
        ran = deploy(made.file, UPGRADE)
        assert ran.status == 0, ran.text
        assert made.versions() == {NEW}
        found = {
            name: node.run("ls /var/lib/rancher/k3s/server/db/snapshots").stdout.split()
            for name, node in made.nodes.items()
        }
        (snapshot,) = [one for some in found.values() for one in some]
        assert snapshot.startswith("hami-k3s-upgrade-s")
        assert deploy(made.file, UPGRADE).changed == []
