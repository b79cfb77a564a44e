"""A cluster of three servers without cards and three agents with different ones, from the fleet file to the proof."""

from __future__ import annotations

import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rehearsal.conftest import Node
from tests.rehearsal.deploying import GPU_NODE, LAB, Ran, deploy, start, verdicts, verify

pytestmark = pytest.mark.rehearsal
FLEET = """
clusters:
  - name: edge
    servers: [{name: s1}, {name: s2}, {name: s3}]
    agents: [{name: a1, card: rtx-pro-6000}, {name: a2, card: l4}, {name: a3, card: h200, cards: 2}]
"""
AGENTS = ("a1", "a2", "a3")
EVERYBODY = {"s1", "s2", "s3", *AGENTS}
# Commands on one host when nothing is to be done, what the agents ask of it as their server included.
MOST_COMMANDS = 12
TOKEN = "/var/lib/rancher/k3s/server/token"
needs_quiet = pytest.mark.skipif(
    "REHEARSAL_HA" not in os.environ, reason="elections mind a busy machine: run with REHEARSAL_HA=1"
)


class Edge:
    """The nodes by name, and the fleet file."""

    def __init__(self, first: Node, file: Path) -> None:
        self.nodes = {name: Node(first.state, name) for name in first.names}
        content = yaml.safe_load(first.fleet.read_text())
        content["settings"]["report_folder"] = str(file.parent / "reports")
        file.write_text(yaml.safe_dump(content))
        self.file = file

    def ready(self) -> set[str]:
        path = '{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
        lines = self.nodes["s1"].kubectl(f"get nodes -o jsonpath='{path}'").splitlines()
        return {line.split()[0] for line in lines if line.endswith(" True")}


@pytest.fixture(scope="module")
def edge(rehearsal: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    folder = tmp_path_factory.mktemp("edge")
    (folder / "shape.yaml").write_text(FLEET)
    with rehearsal("edge", fleet=folder / "shape.yaml") as first:
        yield Edge(first, folder / "fleet.yaml")


@pytest.fixture(scope="module")
def broken_run(edge: Edge) -> Ran:
    """The first run: one agent gets the token of another cluster, one is cut off when it is about to join."""
    edge.nodes["a2"].fault(add=("wrong-token",))
    process = start(edge.file, GPU_NODE, "--data", "k3s_ready_timeout=120")
    # A run that hangs is a failure too, and must not hang the tests.
    guard = threading.Timer(280, lambda: os.killpg(process.pid, signal.SIGKILL))
    guard.start()
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if "Servers are ready" in line and "Starting" in line:
            edge.nodes["a3"].fault(add=("cut",))
    status = process.wait()
    guard.cancel()
    edge.nodes["a2"].fault(clear=("wrong-token",))
    edge.nodes["a3"].fault(clear=("cut",))
    return Ran(status, "".join(lines))


def test_two_bad_agents_are_two_bad_agents(edge: Edge, broken_run: Ran) -> None:
    assert broken_run.status == 1, broken_run.text
    assert "4 of 6 hosts are done, 2 not:" in broken_run.text, broken_run.text[-6000:]
    said = broken_run.text.partition("4 of 6 hosts are done, 2 not:")[2]
    wrong, cut = (
        next(line for line in said.splitlines() if line.startswith(f"  {name}:")) for name in ("a2", "a3")
    )
    assert "k3s | Agent ready" in wrong
    assert "token CA hash does not match" in wrong
    assert "k3s | Joined" in cut
    assert "the connection to the host was lost" in cut
    assert edge.ready() == EVERYBODY - {"a2", "a3"}


def test_the_printed_line_finishes_them(edge: Edge, broken_run: Ran) -> None:
    line = re.search(r"again for only those: (.*)", broken_run.text)
    assert line is not None
    words = shlex.split(line.group(1))
    assert words[0] == f"GPU_FLEET={edge.file}"
    assert words[1:4] == ["pyinfra", "inventory.py", GPU_NODE]
    assert [words[number + 1] for number, word in enumerate(words) if word == "--limit"] == ["a2", "a3"]
    ran = deploy(edge.file, GPU_NODE, "--limit", "a2", "--limit", "a3")
    assert ran.status == 0, ran.text
    assert edge.ready() == EVERYBODY


def test_a_second_run_changes_nothing_and_asks_each_host_little(edge: Edge, broken_run: Ran) -> None:
    for node in edge.nodes.values():
        verbose = "echo LogLevel VERBOSE >/etc/ssh/sshd_config.d/20-count.conf && systemctl reload ssh"
        assert node.run(verbose).ok
    before = edge.nodes["s1"].standing()
    units = "systemctl show -p MainPID -p NRestarts k3s k3s-agent"
    processes = {name: node.run(units).stdout for name, node in edge.nodes.items()}
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    time.sleep(1)
    ran = deploy(edge.file, GPU_NODE, "-vvv")
    assert ran.status == 0, ran.text
    assert ran.changed == []
    assert edge.nodes["s1"].standing() == before
    assert {name: node.run(units).stdout for name, node in edge.nodes.items()} == processes
    counts = {}
    for name, node in edge.nodes.items():
        journal = node.run(f"journalctl -u ssh -o cat --since '{since}'").stdout
        # The last two: the look at the units, and this command itself.
        counts[name] = journal.count("Starting session:") - 2
    assert max(counts.values()) <= MOST_COMMANDS, counts
    # Also with everything shown, the token is not.
    token = edge.nodes["s1"].run(f"cat {TOKEN}").stdout.strip()
    assert token.startswith("K10")
    assert token.rpartition(":")[2] not in ran.text


def test_the_token_is_in_no_log_no_process_list_and_no_file_for_everybody(
    edge: Edge, broken_run: Ran
) -> None:
    secret = edge.nodes["s1"].run(f"cat {TOKEN}").stdout.strip().rpartition(":")[2]
    assert secret not in broken_run.text
    assert not [path for path in edge.file.parent.rglob("*") if path.is_file() and secret in path.read_text()]
    for node in edge.nodes.values():
        look = (
            f"grep -rlsF {secret} /etc /run /tmp /usr/local /var/log /root --exclude-dir=systemd | xargs -r stat -c '%a %n';"
            f"journalctl -o cat --no-pager | grep -cF {secret}; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -cF {secret}"
        )
        *files, logged, running = node.run(look, stdin="").stdout.splitlines()
        # The command that looks is itself in the process list, as sshd's shell and as what it runs.
        assert [line for line in files if not line.startswith("600 ")] == []
        assert int(logged) == 0
        assert int(running) <= 3


def test_hami_is_there_once_and_sized_by_the_servers(edge: Edge) -> None:
    server = edge.nodes["s1"]
    pods = server.kubectl(
        "-n kube-system get pods -l app.kubernetes.io/component=hami-scheduler -o name"
    ).split()
    assert len(pods) == 3
    assert len(server.kubectl("-n kube-system get secrets -l owner=helm -o name").split()) == 1
    labelled = server.kubectl("get nodes -l gpu=on -o name").split()
    assert labelled == [f"node/{name}" for name in AGENTS]
    runtime = "grep -c default-runtime /etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml"
    assert {name: node.run(runtime).stdout.strip() for name, node in edge.nodes.items()} == {
        name: "1" if name in AGENTS else "0" for name in EVERYBODY
    }


def test_every_card_is_proved_through_the_servers(edge: Edge, tmp_path: Path) -> None:
    ran, reports = verify(edge.file, tmp_path / "reports")
    assert ran.status == 0, ran.text
    assert set(reports) == set(AGENTS)
    for name in AGENTS:
        assert verdicts(reports[name]) == dict.fromkeys(LAB, "pass"), name
        assert {one["status"] for one in reports[name]["verdicts"]} <= {"pass", "warn"}
    # What the host saw while the slices were full was seen on the card's own host.
    seen = {one["claim"]: one["observed"] for one in reports["a2"]["verdicts"]}
    assert "MiB free on the host" in seen["refused"]
    assert "hami-k3s-verify" not in edge.nodes["s1"].kubectl("get namespaces -o name")


def test_a_machine_built_anew_takes_its_old_name(edge: Edge) -> None:
    """Everything of k3s is gone on it, the password that its name was registered with too."""
    agent = edge.nodes["a1"]
    uid = edge.nodes["s1"].kubectl("get node a1 -o jsonpath='{.metadata.uid}'")
    assert agent.run("/usr/local/bin/k3s-uninstall.sh && test ! -e /etc/rancher/node/password").ok
    ran = deploy(edge.file, GPU_NODE, "--limit", "a1")
    assert ran.status == 0, ran.text
    assert "removed what an earlier machine of this name left in the cluster" in ran.text
    assert edge.nodes["s1"].kubectl("get node a1 -o jsonpath='{.metadata.uid}'") != uid


@needs_quiet
def test_a_server_that_is_down_is_said_and_nothing_else_suffers(edge: Edge, tmp_path: Path) -> None:
    with edge.nodes["s3"].broken("cut"):
        ran = deploy(edge.file, GPU_NODE)
        assert ran.status == 1
        assert "5 of 6 hosts are done, 1 not:\n  s3: unreachable" in ran.text
        assert ran.changed == []
        _, reports = verify(edge.file, tmp_path / "reports")
        for name in AGENTS:
            assert verdicts(reports[name]) == dict.fromkeys(LAB, "pass"), name
    ran = deploy(edge.file, GPU_NODE)
    assert ran.status == 0, ran.text
    assert edge.ready() == EVERYBODY
