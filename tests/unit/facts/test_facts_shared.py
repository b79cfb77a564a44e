"""Facts with a half from the host and a half from its cluster's API: the two halves are the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hami_k3s.facts.cluster import Cluster
from hami_k3s.facts.hami import Hami
from hami_k3s.facts.helm import Release, ReleaseState
from hami_k3s.facts.k3s import K3s
from hami_k3s.facts.nvidia import OnBus
from hami_k3s.facts.shared import Shared
from hami_k3s.facts.toolkit import MissingTools
from tests.unit.facts.api_server import Api
from tests.unit.facts.host_tools import Bin
from tests.unit.facts.test_facts_bare_host import SHELLS
from tests.unit.facts.test_facts_helm import DEPLOYED, SECRETS, listed, stored

RELEASE = {"release": "hami", "namespace": "kube-system"}
NODE = {
    "kind": "Node",
    "metadata": {
        "name": "gpu-1",
        "labels": {"node-role.kubernetes.io/control-plane": "true"},
        "annotations": {"hami.io/node-handshake": "x"},
    },
    "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
}
ANSWERS = {
    SECRETS: listed(stored(DEPLOYED)),
    "/version": {"gitVersion": "v1.36.2+k3s1"},
    "/api/v1/nodes": listed(NODE),
    "/readyz": "ok",
    "/apis/apps/v1/daemonsets": listed(),
}
# fact, its arguments, a part that only the host knows, one that only the API knows
CASES: list[tuple[type[Shared[Any]], dict[str, Any], tuple[str, Any], tuple[str, Any]]] = [
    (K3s, {"api": True, "unit": "k3s-agent", "member": True}, ("hostname", "gpu-1"), ("api", "ok")),
    (K3s, {"api": True}, ("hostname", "gpu-1"), ("api", "ok")),
    (Hami, RELEASE, ("own_node", "gpu-1"), ("server_version", "v1.36.2+k3s1")),
    (Release, RELEASE, ("cut_off", False), ("servers", 1)),
    (Cluster, {}, ("now", 1783419975.0), ("answers", True)),
]


@pytest.fixture
def api(host: Bin) -> Api:
    host.put("hostname", "echo GPU-1")
    host.put("date", "echo 1783419975")
    api = Api(host)
    api.answers = dict(ANSWERS)
    return api


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("fact", "arguments", "own", "asked"), CASES)
def test_both_halves_are_the_whole(
    api: Api,
    shell: str,
    fact: type[Shared[Any]],
    arguments: dict[str, Any],
    own: tuple[str, Any],
    asked: tuple[str, Any],
) -> None:
    whole, one = api.read(fact, shell, **arguments), fact()
    halves = [api.host.shell(script, shell) for script in (one.own(**arguments), one.asked(**arguments))]
    both = one.process(halves[0] + halves[1])
    if isinstance(whole, ReleaseState):  # somebody's helm may really be at work on this machine
        whole, both = replace(whole, working=False), replace(both, working=False)
    assert both == whole
    assert {line.partition("=")[0] for line in halves[0]}.isdisjoint(
        line.partition("=")[0] for line in halves[1]
    )
    for part, value in (own, asked):
        assert getattr(whole, part) == value
    if fact is not Release:  # a host always knows whether a helm is at work
        assert getattr(one.process(halves[1]), own[0]) is None
    assert not getattr(one.process(halves[0]), asked[0])


def test_k3s_without_the_api_asks_no_server(api: Api) -> None:
    assert K3s().asked(api=False, unit="k3s-agent", member=True) == ""
    assert api.read(K3s, api=False).hostname == "gpu-1"


def test_a_member_without_any_of_its_files(api: Api) -> None:
    now = api.read(K3s, api=True, member=True)
    assert (now.cluster_file, now.token, now.server_token) == (None, None, None)
    assert (now.data, now.password) == (False, False)
    assert list(now.servers) == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("vendor", "kind", "there"),
    [
        ("0x10de", "0x030200", True),
        ("0x10de", "0x030000", True),
        ("0x10de", "0x040300", False),  # its sound device
        ("0x1002", "0x030000", False),
    ],
)
def test_a_card_on_the_bus(host: Bin, tmp_path: Path, vendor: str, kind: str, there: bool) -> None:
    device = tmp_path / "devices" / "0000:05:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    command = OnBus().command().get_raw_value()
    assert "/sys/bus/pci/devices/" in command
    lines = host.shell(command.replace("/sys/bus/pci/devices/", f"{device.parent}/"))
    assert (OnBus().process(lines) if lines else OnBus().default()) is there


@pytest.mark.parametrize("shell", SHELLS)
def test_tools_that_are_missing(host: Bin, shell: str) -> None:
    assert host.read(MissingTools, shell)[:2] == ["curl", "gpg"]
    host.put("curl", "true")
    assert host.read(MissingTools, shell)[0] == "gpg"
