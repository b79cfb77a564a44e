"""Clusters in the fleet file: where their settings come from, and every way to get them wrong."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from hami_k3s import fleet, gate
from hami_k3s.fleet import FleetError
from hami_k3s.inventory import hosts

ROOT = Path(__file__).resolve().parents[2]
LAB = """
hosts: [root@alone]
clusters:
  - name: lab-1
    servers: [root@s1, root@s2, {name: s3, ssh_hostname: 203.0.113.3, k3s_gpu: false}]
    agents: [ubuntu@a1, root@a2]
    settings: {k3s_version: v1.35.4+k3s2}
  - name: edge
    servers: [root@e1]
"""
PLACE = "write the host under a cluster's servers or agents"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hosts from this machine's own environment, and nothing left behind for this process' end."""
    monkeypatch.delenv("GPU_NODES", raising=False)
    monkeypatch.delenv("GPU_FLEET", raising=False)
    monkeypatch.setattr(gate, "install", lambda: None)


def read(folder: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    (folder / "fleet.yaml").write_text(text, encoding="utf-8")
    return hosts(folder)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(FleetError) as caught:
        read(folder, text)
    return str(caught.value)


def test_hosts_know_their_cluster_and_role(tmp_path: Path) -> None:
    found = dict(read(tmp_path, LAB))
    assert list(found) == ["alone", "s1", "s2", "s3", "a1", "a2", "e1"]
    assert found["alone"] == {"ssh_user": "root"}
    lab = {"k3s_cluster": "lab-1", "k3s_version": "v1.35.4+k3s2"}
    assert found["s1"] == {"ssh_user": "root", "k3s_role": "server", **lab}
    assert found["s3"] == {"ssh_hostname": "203.0.113.3", "k3s_gpu": False, "k3s_role": "server", **lab}
    assert found["a1"] == {"ssh_user": "ubuntu", "_sudo": True, "k3s_role": "agent", **lab}
    assert (found["e1"]["k3s_cluster"], found["e1"]["k3s_role"]) == ("edge", "server")


def test_groups_are_for_limit(tmp_path: Path) -> None:
    assert fleet.groups(read(tmp_path, LAB)) == {
        "servers": ["s1", "s2", "s3", "e1"],
        "agents": ["a1", "a2"],
        "lab_1": ["s1", "s2", "s3", "a1", "a2"],
        "edge": ["e1"],
    }
    assert fleet.groups(read(tmp_path, "hosts: [root@a]")) == {}


def test_the_inventory_file_has_these_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab.yaml").write_text(LAB)
    monkeypatch.setenv("GPU_FLEET", str(tmp_path / "lab.yaml"))
    made = runpy.run_path(str(ROOT / "inventory.py"))
    assert [name for name, _ in made["gpu_nodes"]] == ["alone", "s1", "s2", "s3", "a1", "a2", "e1"]
    assert (made["agents"], made["edge"]) == (["a1", "a2"], ["e1"])


def test_a_hosts_setting_wins_over_its_clusters_and_that_over_the_files(tmp_path: Path) -> None:
    found = dict(
        read(
            tmp_path,
            """
clusters:
  - name: lab
    servers: [{name: s1, verify_slice_mib: 1000}, root@s2, root@s3]
    settings: {verify_slice_mib: 2000, hami_namespace: gpu}
settings: {verify_slice_mib: 3000, hami_namespace: other, k3s_ready_timeout: 77}
hosts: [root@alone]
""",
        )
    )
    assert [found[name]["verify_slice_mib"] for name in ("s1", "s2", "alone")] == [1000, 2000, 3000]
    assert [found[name]["hami_namespace"] for name in ("s1", "alone")] == ["gpu", "other"]
    assert {data["k3s_ready_timeout"] for data in found.values()} == {77}


ONE = "clusters: [{name: lab, servers: [root@s1], "
BAD: list[tuple[str, str]] = [
    ("clusters: {name: lab}", "`clusters:` must be a list"),
    ("clusters: [lab]", "needs a `name:` of a-z, 0-9 and -; given: 'lab'"),
    ("clusters: [{servers: [root@s1]}]", "needs a `name:`"),
    ("clusters: [{name: Lab_1, servers: [root@s1]}]", "needs a `name:`"),
    ("clusters: [{name: -lab, servers: [root@s1]}]", "needs a `name:`"),
    *[
        (f"clusters: [{{name: {name}, servers: [root@s1]}}]", f"a cluster cannot be called {name}")
        for name in ("all", "servers", "agents", "gpu-nodes")
    ],
    ("cluster: []", "unknown key 'cluster'; the top level has `hosts:`, `clusters:`, `settings:`"),
    (
        ONE + "workers: []}]",
        "unknown key 'workers'; cluster lab has `name:`, `servers:`, `agents:`, `settings:`",
    ),
    (ONE + "agents: [{name: a1, ssh_prot: 22}]}]", "host a1: unknown key 'ssh_prot'; known: "),
    (ONE + "agents: root@a1}]", "`agents:` must be a list"),
    (ONE + "agents: [root@]}]", "'root@' is not user@address"),
    ("clusters: [{name: lab}]", "cluster lab has no servers"),
    (
        "clusters: [{name: lab, agents: [root@a1]}]",
        "cluster lab has no servers; write one host, or three, under its `servers:`",
    ),
    (ONE + "settings: [x]}]", "`cluster lab: settings:` must be a mapping"),
    (ONE + "settings: {ssh_user: x}}]", "ssh_user under `cluster lab: settings:` is not a setting"),
    (ONE + "settings: {k3s_role: agent}}]", f"k3s_role under `cluster lab: settings:`: {PLACE}"),
    (ONE + "agents: [{name: a1, k3s_cluster: lab}]}]", f"host a1: k3s_cluster: {PLACE}"),
    ("hosts: [{name: a1, k3s_role: agent}]", f"host a1: k3s_role: {PLACE}"),
    ("hosts: [root@a]\nsettings: {k3s_cluster: lab}", f"k3s_cluster under `settings:`: {PLACE}"),
    (ONE + "}, {name: lab, servers: [root@s2]}]", "cluster lab is listed twice"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_cluster_that_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    message = refused(tmp_path, text)
    assert message.startswith(f"Error: {tmp_path / 'fleet.yaml'}: ")
    assert words in message


TOGETHER: list[tuple[str, str]] = [
    (ONE + "agents: [root@s1]}]", "host s1 is listed twice; give each machine one entry"),
    (
        ONE + "}, {name: edge, servers: [root@s1]}]",
        "host s1 is listed twice, in clusters edge and lab; give each machine one entry",
    ),
    (
        ONE + "agents: [{name: a1, ssh_hostname: s1}]}]",
        "s1 and a1 are the same machine: reached at s1:22",
    ),
    (
        "hosts: [{name: x, ssh_hostname: h, ssh_port: 2222}, root@h:2222]",
        "x and h:2222 are the same machine: reached at h:2222",
    ),
    (
        "clusters: [{name: lab, servers: [{name: s1, k3s_node_ip: 10.0.0.1}], "
        "agents: [{name: a1, k3s_node_ip: 10.0.0.1}]}]",
        "s1 and a1 are the same machine: k3s_node_ip 10.0.0.1 in cluster lab",
    ),
    (
        ONE + "agents: [{name: a1, hami_namespace: gpu}], settings: {hami_namespace: kube-system}}]",
        "cluster lab: hami_namespace is 'kube-system' on s1, 'gpu' on a1; HAMi is one installation",
    ),
    (
        ONE + "agents: [{name: a1, hami_values: {devicePlugin: {deviceSplitCount: 4}}}, root@a2]}]",
        "cluster lab: hami_values is not set on s1, {'devicePlugin': {'deviceSplitCount': 4}} on a1; HAMi",
    ),
]


@pytest.mark.parametrize(("text", "words"), TOGETHER)
def test_hosts_that_do_not_go_together(tmp_path: Path, text: str, words: str) -> None:
    message = refused(tmp_path, text)
    assert message.startswith("Error: the fleet is wrong, nothing was contacted:\n")
    (line,) = message.splitlines()[1:]
    assert line.strip().startswith(words)


def test_everything_that_does_not_go_together_at_once(tmp_path: Path) -> None:
    text = ONE + "agents: [root@s1, {name: a1, ssh_hostname: x, hami_release: r}, root@x]}]"
    lines = refused(tmp_path, text).splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["s1", "and", "lab:"]


def test_what_may_be_equal(tmp_path: Path) -> None:
    """Addresses of two sites' private networks, and other ports of one address."""
    text = """
clusters:
  - {name: one, servers: [{name: s1, k3s_node_ip: 10.0.0.1, hami_namespace: a}]}
  - {name: two, servers: [{name: s2, k3s_node_ip: 10.0.0.1, hami_namespace: b}]}
hosts: [{name: x, k3s_node_ip: 10.0.0.1}, {name: y, k3s_node_ip: 10.0.0.1}, root@h:2222, root@h:2223]
"""
    assert len(read(tmp_path, text)) == 6


@pytest.mark.parametrize(("servers", "warned"), [(1, False), (2, True), (3, False), (4, True)])
def test_an_even_number_of_servers_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], servers: int, warned: bool
) -> None:
    names = ", ".join(f"root@s{number}" for number in range(servers))
    assert len(read(tmp_path, f"clusters: [{{name: lab, servers: [{names}]}}]")) == servers
    out, err = capsys.readouterr()
    assert out == ""
    assert (f"Warning: cluster lab has {servers} servers" in err) is warned
    assert (f"than with {servers - 1}. Use an odd number" in err) is warned


def test_the_examples_cluster_is_one(tmp_path: Path) -> None:
    """Its lines are comments, so that the example as it stands names two hosts."""
    example = (ROOT / "fleet.example.yaml").read_text(encoding="utf-8")
    start = example.index("# clusters:")
    part = example[start : example.index("\n\n", start)]
    found = dict(read(tmp_path, example.replace(part, "\n".join(line[2:] for line in part.splitlines()))))
    assert fleet.groups(list(found.items())) == {
        "lab_1": ["203.0.113.11", "203.0.113.12", "worker-2"],
        "servers": ["203.0.113.11"],
        "agents": ["203.0.113.12", "worker-2"],
    }
    assert found["worker-2"]["k3s_node_ip"] == "10.0.0.13"
    assert (found["worker-2"]["hami_namespace"], found["edge-1"].get("hami_namespace")) == ("gpu", None)


def test_settings_of_clusters_are_checked_by_host(tmp_path: Path) -> None:
    message = refused(tmp_path, ONE + "agents: [root@a1], settings: {k3s_verison: x}}]")
    wrong = "k3s_verison: unknown setting; did you mean k3s_version?"
    assert [line.strip() for line in message.splitlines()[1:]] == [f"s1: {wrong}", f"a1: {wrong}"]
