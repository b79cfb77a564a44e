"""Hosts from GPU_NODES, GPU_FLEET and fleet.yaml, and every way to get them wrong."""

import os
from pathlib import Path
from typing import Any

import pytest

from hami_k3s import gate
from hami_k3s.inventory import FleetError, hosts

ROOT = Path(__file__).resolve().parents[2]
SUDO = {"_sudo": True}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hosts from this machine's own environment, and nothing left behind for this process' end."""
    monkeypatch.delenv("GPU_NODES", raising=False)
    monkeypatch.delenv("GPU_FLEET", raising=False)
    monkeypatch.setattr(gate, "install", lambda: None)


def nodes(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    monkeypatch.setenv("GPU_NODES", text)
    return hosts(folder)


@pytest.mark.parametrize(
    ("text", "name", "data"),
    [
        ("root@203.0.113.7", "203.0.113.7", {"ssh_user": "root"}),
        ("203.0.113.7", "203.0.113.7", {}),
        ("ubuntu@gpu-1.example.com", "gpu-1.example.com", {"ssh_user": "ubuntu", **SUDO}),
        (" ubuntu@gpu_1 ", "gpu_1", {"ssh_user": "ubuntu", **SUDO}),
        (
            "ubuntu@gpu-1:2222",
            "gpu-1:2222",
            {"ssh_user": "ubuntu", "ssh_port": 2222, "ssh_hostname": "gpu-1", **SUDO},
        ),
        ("gpu-1:2222", "gpu-1:2222", {"ssh_port": 2222, "ssh_hostname": "gpu-1"}),
        ("root@2001:db8::1", "2001:db8::1", {"ssh_user": "root"}),
        ("2001:db8::1", "2001:db8::1", {}),
        ("::1", "::1", {}),
        ("root@2001:db8:0:0:0:0:0:22", "2001:db8:0:0:0:0:0:22", {"ssh_user": "root"}),
        ("root@[2001:db8::1]", "2001:db8::1", {"ssh_user": "root"}),
        (
            "root@[2001:db8::1]:2222",
            "2001:db8::1:2222",
            {"ssh_user": "root", "ssh_port": 2222, "ssh_hostname": "2001:db8::1"},
        ),
    ],
)
def test_one_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, name: str, data: dict[str, Any]
) -> None:
    assert nodes(monkeypatch, tmp_path, text) == [(name, data)]


@pytest.mark.parametrize(("user", "data"), [(0, {}), (1000, SUDO)])
def test_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int, data: dict[str, Any]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert nodes(monkeypatch, tmp_path, "@local") == [("@local", data)]


def test_several_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = nodes(monkeypatch, tmp_path, "root@a, ubuntu@b,,root@a:2222,")
    assert [name for name, _ in found] == ["a", "b", "a:2222"]


@pytest.mark.parametrize(
    "text",
    ["root@", "@", "a b", "-oProxyCommand=x", "root@-x", "a;b", "root@a:ssh", "a@b@c", "@ssh/x", "$(x)"],
)
def test_node_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    with pytest.raises(FleetError, match=r"GPU_NODES: .* is not user@address"):
        nodes(monkeypatch, tmp_path, text)


def fleet(folder: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    (folder / "fleet.yaml").write_text(text, encoding="utf-8")
    return hosts(folder)


def test_fleet_file(tmp_path: Path) -> None:
    found = fleet(
        tmp_path,
        """
hosts:
  - ubuntu@203.0.113.7
  - "@local"
  - name: edge-1
    ssh_hostname: 203.0.113.8
    ssh_user: admin
    ssh_port: 22001
    verify_slice_mib: 4000
    helm_version: v4.1.0
  - {name: edge-2, ssh_user: admin, _sudo: false}
settings:
  helm_version: v3.19.0
  hami_values: {devicePlugin: {deviceSplitCount: 4}}
""",
    )
    shared = {"helm_version": "v3.19.0", "hami_values": {"devicePlugin": {"deviceSplitCount": 4}}}
    data = dict(found)
    assert list(data) == ["203.0.113.7", "@local", "edge-1", "edge-2"]
    assert data["203.0.113.7"] == {**shared, "ssh_user": "ubuntu", **SUDO}
    assert data["edge-1"] == {
        **shared,
        "ssh_hostname": "203.0.113.8",
        "ssh_user": "admin",
        "ssh_port": 22001,
        "verify_slice_mib": 4000,
        "helm_version": "v4.1.0",
        **SUDO,
    }
    assert data["edge-2"]["_sudo"] is False  # said by hand


def test_named_file_comes_before_the_folders_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("hosts: [root@a]")
    (tmp_path / "other.yaml").write_text("hosts: [root@b]")
    monkeypatch.setenv("GPU_FLEET", str(tmp_path / "other.yaml"))
    assert [name for name, _ in hosts(tmp_path)] == ["b"]


def test_nodes_come_before_the_folders_own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("hosts: [root@a]")
    assert [name for name, _ in nodes(monkeypatch, tmp_path, "root@b")] == ["b"]


def test_the_example_is_a_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_FLEET", str(ROOT / "fleet.example.yaml"))
    assert hosts(ROOT)


BAD: list[tuple[str, str]] = [
    ("hosts: [root@a, {name: b", "is not YAML"),
    ("- root@a", "expected `hosts:`, `clusters:` and `settings:` at the top"),
    ("root@a", "expected `hosts:`, `clusters:` and `settings:` at the top"),
    ("", "expected `hosts:`, `clusters:` and `settings:` at the top"),
    ("hosts: [root@a]\nsetings: {}", "unknown key 'setings'"),
    ("hosts: [root@a]\nsettings: [x]", "`settings:` must be a mapping"),
    ("hosts: [root@a]\nsettings: {ssh_user: x}", "ssh_user under `settings:` is not a setting"),
    ("hosts: [root@a]\nsettings: {1: x}", "1 under `settings:` is not a setting"),
    ("hosts: {name: a}", "`hosts:` must be a list"),
    ("hosts: [{ssh_user: a}]", "write user@address, or a mapping with `name:`"),
    ("hosts: [7]", "write user@address, or a mapping with `name:`"),
    ("hosts: [{name: 7}]", "write user@address, or a mapping with `name:`"),
    ("hosts: [{name: a, ssh_prot: 22}]", "host a: unknown key 'ssh_prot'; known: "),
    ("hosts: [root@a, ubuntu@a]", "host a is listed twice"),
    ("hosts: []", "no hosts given"),
    ("settings: {}", "no hosts given"),
    (
        "hosts: [root@a]\nsettings: {k3s_verison: x}",
        "a: k3s_verison: unknown setting; did you mean k3s_version?",
    ),
    ("hosts: [{name: a, helm_version: 4.2}]", "a: helm_version: "),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_fleet_that_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FleetError) as caught:
        fleet(tmp_path, text)
    message = str(caught.value)
    assert message.startswith("Error: ")
    assert words in message
    if (
        "no hosts" not in words
        and "twice" not in words
        and "setting;" not in words
        and "helm_version" not in words
    ):
        assert str(tmp_path / "fleet.yaml") in message


def test_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPU_FLEET", str(tmp_path / "missing.yaml"))
    with pytest.raises(
        FleetError, match=r"missing.yaml: No such file or directory\. GPU_FLEET names a YAML file"
    ):
        hosts(tmp_path)
    monkeypatch.setenv("GPU_FLEET", str(tmp_path))
    with pytest.raises(FleetError, match="Is a directory"):
        hosts(tmp_path)


def test_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FleetError, match="is not YAML"):
        hosts(tmp_path)


def test_yaml_cannot_run_code(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="is not YAML"):
        fleet(tmp_path, "hosts: !!python/object/apply:os.system ['touch x']")


def test_both_ways_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPU_FLEET", "x")
    with pytest.raises(FleetError, match="both GPU_NODES and GPU_FLEET are set"):
        nodes(monkeypatch, tmp_path, "root@a")


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_no_hosts_shows_how_to_name_some(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    with pytest.raises(FleetError) as caught:
        nodes(monkeypatch, tmp_path, text)
    for way in ("GPU_NODES=root@", "GPU_NODES=@local", "cp fleet.example.yaml fleet.yaml", "GPU_FLEET="):
        assert way in str(caught.value)


def test_every_hosts_problems_at_once(tmp_path: Path) -> None:
    with pytest.raises(FleetError) as caught:
        fleet(
            tmp_path,
            "hosts: [{name: a, helm_version: x}, {name: b, k3s_version: x}]\nsettings: {verify_probe: x}",
        )
    lines = str(caught.value).splitlines()
    assert lines[0] == "Error: settings are wrong, nothing was contacted:"
    assert [line.strip().split(": ")[:2] for line in lines[1:]] == [
        ["a", "helm_version"],
        ["a", "verify_probe"],
        ["b", "k3s_version"],
        ["b", "verify_probe"],
    ]


def test_group_data_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data" / "all.py").write_text("helm_version = 'v4.2'\n")
    with pytest.raises(FleetError, match="a: helm_version"):
        fleet(tmp_path, "hosts: [root@a]")
    assert fleet(tmp_path, "hosts: [{name: a, helm_version: v4.1.0}]")  # the host's own wins
