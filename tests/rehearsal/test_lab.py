"""The two commands of the README on machines that anyone can start, run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.deploying import GPU_NODE, LAB, Ran, deploy, fleet, verdicts, verify

pytestmark = pytest.mark.rehearsal

STEPS = [
    "Preflight | Look at the host",
    "Preflight | The host can be a GPU node",
    "Preflight | No other run on this host",
    "Downloads | Begun, where something is missing",
    "Container toolkit | NVIDIA's repository",
    "Container toolkit | Pinned packages, held",
    "k3s | Verified binary",
    "k3s | Unit, configuration, scripts",
    "k3s | Running with this configuration",
    "k3s | Ready, NVIDIA's runtime by default",
    "Label | gpu=on",
    "Helm | Verified binary",
    "HAMi | Release",
    "HAMi | Cards registered, webhook answers",
]
# What gpu_node.py asks a host for when nothing is to be done.
COMMANDS_OF_A_NOOP_RUN = 3


@pytest.fixture
def file(machines: Any, tmp_path: Path) -> Path:
    """The fleet of the two nodes that work."""
    return fleet(tmp_path / "fleet.yaml", machines.lab, machines.ubuntu)


def test_one_broken_machine_does_not_stop_the_others(machines: Any) -> None:
    ran: Ran = machines.first_run
    assert ran.status != 0
    refused = ran.on(machines.broken.name)
    assert "1 problem; nothing was changed on this host" in refused
    assert "is in MIG mode" in refused
    assert "nvidia-smi -i 0 -mig 0" in refused
    assert list(ran.results) == STEPS
    assert (ran.results[STEPS[1]].unchanged, ran.results[STEPS[1]].error) == (2, 1)
    # By the last step everything may have come up already.
    assert all(row.success == 2 for row in list(ran.results.values())[3:-1])


def test_the_first_run_left_a_trail_and_said_what_to_do(machines: Any) -> None:
    """Which host failed, where, why, and the same command for that one alone."""
    ran: Ran = machines.first_run
    name = machines.broken.name
    said = ran.text.splitlines()[-4:]
    assert said[0] == "2 of 3 hosts are done, 1 not:"
    assert said[1].startswith(
        f"  {name}: failed at {STEPS[1]}: 1 problem; nothing was changed on this host: - mig: "
    )
    assert said[2].startswith("again for only those: GPU_FLEET=")
    assert said[2].endswith(f" pyinfra inventory.py deploys/gpu_node.py -y --limit {name}")
    page = Path(said[3].removeprefix("trail: "))
    trail = [json.loads(line) for line in page.with_name("trail.jsonl").read_text().splitlines()]
    ended = [one for one in trail if one["event"] == "ended"]
    assert [one["operation"] for one in ended if one["host"] == machines.lab.name] == STEPS
    results = [one["result"] for one in ended if one["host"] == machines.lab.name]
    assert results[:-1] == ["no change"] * 3 + ["changed"] * 10
    assert results[-1] in ("changed", "no change")
    assert [one["operation"] for one in ended if one["host"] == name] == STEPS[:2]
    assert "is in MIG mode" in ended[[one["result"] for one in ended].index("failed")]["why"][1]


def test_a_second_run_changes_nothing_and_asks_each_host_little(machines: Any, file: Path) -> None:
    nodes = (machines.lab, machines.ubuntu)
    for node in nodes:
        verbose = "echo LogLevel VERBOSE >/etc/ssh/sshd_config.d/20-count.conf && systemctl reload ssh"
        assert node.run(verbose).ok
    before = [node.standing() for node in nodes]
    for node in nodes:
        node.run("logger counting-begins")
    ran = deploy(file, GPU_NODE)
    counted = [
        node.run("journalctl -o cat --no-pager | sed '1,/^counting-begins/d'").stdout for node in nodes
    ]
    assert [node.standing() for node in nodes] == before
    assert ran.status == 0, ran.text
    assert list(ran.results) == STEPS
    assert ran.changed == []
    for node, journal in zip(nodes, counted, strict=True):
        node.run("rm /etc/ssh/sshd_config.d/20-count.conf && systemctl reload ssh")
        # The last one is the command that reads the journal.
        sessions = [line for line in journal.splitlines() if line.startswith("Starting session:")][:-1]
        assert len(sessions) == COMMANDS_OF_A_NOOP_RUN, sessions


def test_verify_proves_the_sharing_on_every_machine(machines: Any, file: Path, tmp_path: Path) -> None:
    ran, reports = verify(file, tmp_path / "reports")
    assert ran.status == 0, ran.text
    assert set(reports) == {machines.lab.name, machines.ubuntu.name}
    for node in (machines.lab, machines.ubuntu):
        report = reports[node.name]
        assert report["outcome"] in ("pass", "warn")
        assert verdicts(report) == dict.fromkeys(LAB, "pass")
        assert "hami-k3s-verify" not in node.kubectl("get namespaces -o name")
    # The L4's slices fit its 24 GB, and each of its two cards is proved.
    small = reports[machines.ubuntu.name]
    first, second = small["cards"]
    sizes = first["plan"]
    assert 2 * sizes["slice_mib"] < first["card"]["memory_mib"] == 23034
    assert sizes["beside_mib"] < sizes["overask_mib"] <= 23034
    seen = {(one["claim"], one["card"]): one["observed"] for one in small["verdicts"]}
    assert "nvidia.com/gpu: 20" in seen["allocatable", None]
    for card in (first, second):
        assert seen["co-resident", card["uuid"]].count(card["uuid"]) == 2
    # The lab's evidence is kept.
    text = str(reports[machines.lab.name])
    assert "CardInsufficientMemory" in text
    assert "Device 0 OOM" in text
    assert "NVIDIA-SMI" in text


def test_verify_with_the_labs_own_probe(machines: Any, tmp_path: Path) -> None:
    file = fleet(tmp_path / "fleet.yaml", machines.lab, verify_probe="nvcc")
    ran, reports = verify(file, tmp_path / "reports")
    # A CUDA image asks for every card by itself, so another claim (no-request) may not hold with it.
    assert verdicts(reports[machines.lab.name]) == dict.fromkeys(LAB, "pass"), ran.text
