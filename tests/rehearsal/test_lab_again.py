"""Machines drift, releases get stuck, settings change: the next run brings them back, and touches no more than it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.deploying import GPU_NODE, deploy, fleet, start

pytestmark = pytest.mark.rehearsal

DROP_IN = "/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml"
HELM = "KUBECONFIG=/etc/rancher/k3s/k3s.yaml /usr/local/bin/helm -n kube-system"
RUNNING = "k3s | Running with this configuration"
FILES = "k3s | Unit, configuration, scripts"
RELEASE = "HAMi | Release"
READY = "HAMi | Cards registered, webhook answers"


@pytest.fixture
def lab(machines: Any, tmp_path: Path) -> Any:
    """The node, with a fleet file of its own in `lab.file`."""
    machines.lab.file = fleet(tmp_path / "fleet.yaml", machines.lab)
    return machines.lab


@pytest.fixture
def both(machines: Any, tmp_path: Path) -> Path:
    """A fleet file of both nodes."""
    return fleet(tmp_path / "both.yaml", machines.lab, machines.ubuntu)


def pid(node: Any) -> str:
    """k3s' process."""
    return str(node.run("systemctl show -p MainPID --value k3s").stdout)


def revision(node: Any) -> tuple[int, str]:
    """Newest revision of the release, and its status."""
    listed = json.loads(node.run(f"{HELM} history hami -o json").stdout)
    return int(listed[-1]["revision"]), listed[-1]["status"]


def test_k3s_is_restarted_once_for_a_changed_file_and_for_nothing_else(lab: Any) -> None:
    pods = lab.standing().splitlines()[2:]
    before = pid(lab)
    lab.new_handshake()
    lab.run(
        f"echo '# by hand' >>{DROP_IN}; echo 'node-label: [by=hand]' >/etc/rancher/k3s/config.yaml.d/90-own.yaml"
    )
    ran = deploy(lab.file, GPU_NODE)
    assert ran.status == 0, ran.text
    assert set(ran.changed) >= {FILES, RUNNING}
    after = pid(lab)
    assert after != before
    assert "by hand" not in lab.run(f"cat {DROP_IN}").stdout
    assert lab.kubectl("get node -l by=hand -o name") == f"node/{lab.name}\n"
    assert lab.standing().splitlines()[2:] == pods, "pods go on when k3s is restarted"
    ran = deploy(lab.file, GPU_NODE)
    assert (ran.status, ran.changed) == (0, [])
    assert pid(lab) == after


def test_a_run_killed_between_the_file_and_the_restart_is_finished(lab: Any) -> None:
    """What is compared is what the process was started with, not what this run has written."""
    before = pid(lab)
    lab.new_handshake()
    lab.run("rm -f /etc/rancher/k3s/config.yaml.d/90-own.yaml")
    ran = deploy(lab.file, GPU_NODE)
    assert ran.status == 0, ran.text
    assert ran.results[FILES].unchanged == 1
    assert ran.results[RUNNING].success == 1
    assert pid(lab) != before


def test_changed_values_upgrade_once(lab: Any) -> None:
    number, _ = revision(lab)
    lab.new_handshake()
    file = fleet(
        lab.file.with_name("values.yaml"), lab, hami_values={"devicePlugin": {"deviceSplitCount": 7}}
    )
    ran = deploy(file, GPU_NODE)
    assert ran.status == 0, ran.text
    assert revision(lab) == (number + 1, "deployed")
    assert lab.kubectl(r"get node -o jsonpath='{.items[0].status.allocatable.nvidia\.com/gpu}'") == "7"
    ran = deploy(file, GPU_NODE)
    assert (ran.status, ran.changed) == (0, [])
    assert revision(lab)[0] == number + 1


def test_releases_stuck_and_failed_are_recovered(machines: Any, both: Path) -> None:
    """On one node helm was killed in an upgrade; on the other an upgrade failed for an image that nobody has."""
    lab, ubuntu = machines.lab, machines.ubuntu
    wrong = fleet(
        both.with_name("wrong.yaml"),
        ubuntu,
        hami_scheduler_registry="registry.invalid",
        hami_ready_timeout=8,
    )
    broken = start(wrong, GPU_NODE)
    chart = "$(ls /usr/local/lib/hami-k3s/charts/hami-2.9.0-*.tgz)"
    stuck = f"{HELM} upgrade hami {chart} --reuse-values --set devicePlugin.deviceSplitCount=3 --wait --timeout 60s"
    killed = "until k3s kubectl -n kube-system get secrets -l status=pending-upgrade -o name | grep -q .; do sleep 0.02; done"
    lab.run(f"{stuck} >/dev/null 2>&1 & helm=$!; timeout 30 sh -c '{killed}'; kill -9 $helm")
    said, _ = broken.communicate(timeout=100)
    assert broken.returncode != 0, said
    assert revision(lab)[1] == "pending-upgrade"
    assert revision(ubuntu)[1] == "failed"
    assert "registry.invalid/kube-scheduler" in said
    assert "hami_scheduler_registry" in said
    lab.new_handshake(), ubuntu.new_handshake()
    ran = deploy(both, GPU_NODE, hami_ready_timeout=15)
    assert ran.status == 0, ran.text
    assert revision(lab)[1] == revision(ubuntu)[1] == "deployed"
    for node, cards in ((lab, 1), (ubuntu, 2)):
        seen = node.kubectl(r"get node -o jsonpath='{.items[0].status.allocatable.nvidia\.com/gpu}'")
        assert seen == str(10 * cards)


def test_what_hami_never_retries_is_retried_here(lab: Any) -> None:
    """HAMi #2418: the plugin runs, believes it has registered, and the node has no annotation."""
    plugin = "get pods -n kube-system -l app.kubernetes.io/component=hami-device-plugin -o name"
    before = lab.kubectl(plugin)
    lab.new_handshake()
    lab.kubectl(f"annotate node {lab.name} hami.io/node-nvidia-register-")
    ran = deploy(lab.file, GPU_NODE, hami_ready_timeout=20)
    assert ran.status == 0, ran.text
    assert ran.text.count("restarting it once (HAMi #2418)") == 1
    assert ran.changed == [READY]
    assert lab.kubectl(plugin) != before


def test_done_means_done(machines: Any, both: Path) -> None:
    """A plugin that finds no card and a webhook without endpoints: each is said, with what the plugin logged."""
    lab, ubuntu = machines.lab, machines.ubuntu
    with lab.broken("registered-nothing"), ubuntu.broken("webhook-late"):
        lab.kubectl(f"annotate node {lab.name} hami.io/node-nvidia-register-")
        ubuntu.kubectl("-n kube-system delete pod -l app.kubernetes.io/component=hami-scheduler")
        ran = deploy(both, GPU_NODE, hami_ready_timeout=10)
    assert ran.status != 0
    assert ran.last == READY
    assert f"node {lab.name} has no annotation hami.io/node-nvidia-register: no card is registered" in ran.on(
        lab.name
    )
    assert "the plugin's log says: the plugin sees no card" in ran.on(lab.name)
    assert "No devices found. Waiting indefinitely" in ran.on(lab.name)
    assert "the webhook has no endpoints yet: GPU pods would go to the default scheduler" in ran.on(
        ubuntu.name
    )
    assert "hami_ready_timeout is the limit of this wait" in ran.on(ubuntu.name)
    lab.new_handshake()
    ran = deploy(both, GPU_NODE, hami_ready_timeout=60)
    assert ran.status == 0, ran.text
