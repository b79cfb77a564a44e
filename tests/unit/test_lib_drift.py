"""What drift.py shows: rows of the operations, whole parts that are not there, hosts that could not be read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api import StringCommand
from pyinfra.api.command import PyinfraCommand

from hami_k3s import looking
from hami_k3s.difference import NOTED, Difference, noted
from hami_k3s.facts.binary import BinaryState
from hami_k3s.facts.helm import ReleaseState
from hami_k3s.facts.toolkit import ToolkitState
from hami_k3s.looking import Found
from hami_k3s.operations import binary, drift, helm, toolkit
from hami_k3s.reports import drift as report

FILE = Difference("file", "/etc/a", "another text", "as written, mode 600")
ROW = Found("k3s", "Unit, configuration, scripts", FILE)


class Operations:
    """A host with operations as pyinfra keeps them, and what was really done."""

    name = "gpu-1"

    def __init__(self, **bodies: Any) -> None:
        self.done: list[str] = []
        self.op_hash_order = list(bodies)
        self.ops = {
            name: SimpleNamespace(command_generator=lambda body=body: body(self))
            for name, body in bodies.items()
        }
        self.state: Any = SimpleNamespace(
            ops={self: self.ops}, get_op_meta=lambda name: SimpleNamespace(names={f"k3s | {name}"})
        )

    def run(self) -> list[PyinfraCommand]:
        return [command for name in self.op_hash_order for command in self.ops[name].command_generator()]


def acts(host: Any) -> Iterator[PyinfraCommand]:
    noted(host, [FILE])
    try:
        yield StringCommand("rm -rf /")
        host.done.append("went on")
    finally:
        host.done.append("closed")


def silent(host: Any) -> Iterator[PyinfraCommand]:
    yield StringCommand("reboot")


def nothing(host: Any) -> Iterator[PyinfraCommand]:
    noted(host, [])
    yield from ()


def test_operations_look_and_do_nothing() -> None:
    host: Any = Operations(acts=acts, silent=silent, nothing=nothing)
    found: list[Found] = []
    looking.only(host, found.extend)
    assert host.run() == []
    assert host.done == ["closed"]
    step = Difference("step", "silent", "to be done", "done")
    assert found == [Found("k3s", "acts", FILE), Found("k3s", "silent", step)]


def test_rows_of_one_operation_are_not_the_next_ones() -> None:
    NOTED["gpu-1"].append(FILE)
    host: Any = Operations(silent=silent)
    found: list[Found] = []
    looking.only(host, found.extend)
    host.run()
    assert [one.difference.kind for one in found] == ["step"]


def test_table() -> None:
    assert report.table("gpu-1", []) == "gpu-1: as wanted"
    hold = Difference("hold", "nvidia-container-toolkit", "not held\x1b[31m", "held")
    text = report.table("gpu-1", [ROW, Found("Container toolkit", "Pinned", hold)])
    assert text.splitlines() == [
        "gpu-1: 2 differences",
        "  k3s               file     /etc/a: another text; wanted: as written, mode 600",
        "  Container toolkit hold     nvidia-container-toolkit: not held; wanted: held",
    ]


def rows(part: str, differences: list[Difference]) -> list[Found]:
    return [Found(part, "step", one) for one in differences]


BARE = [
    *rows(
        "Container toolkit",
        toolkit.repository_differences(ToolkitState(), "https://x.example", "C95B", "1.19.1"),
    ),
    *rows("Container toolkit", toolkit.package_differences(ToolkitState(), "1.19.1")),
    *rows("k3s", binary.differences(BinaryState(), "k3s", "v1.36.2+k3s1", True)),
    ROW,
    *rows("Label", [Difference("label", "gpu", "not there", "on")]),
    *rows("Helm", binary.differences(BinaryState(), "helm", "v4.2.3", False)),
    *rows("HAMi", [Difference("release", "hami", "unknown: the API server does not answer", "2.9.0")]),
]


def test_a_bare_host_has_a_line_for_each_part() -> None:
    assert report.table("gpu-1", BARE).splitlines() == [
        "gpu-1: 4 differences",
        "  Container toolkit not installed, wanted 1.19.1-1",
        "  k3s               not installed, wanted v1.36.2+k3s1",
        "  Helm              not installed, wanted v4.2.3",
        "  HAMi              not installed, wanted 2.9.0",
    ]
    assert {one["found"] for one in report.as_data(BARE)["differences"]} == {"not installed"}


ONE_OF_FOUR = ToolkitState(installed={"libnvidia-container1": "1.19.1-1"}, held=("libnvidia-container1",))
FAILED = ReleaseState(status="failed", chart_version="2.8.0", values={"a": {"b": 1}})
OLD = "/usr/local/lib/hami-k3s/k3s-v1.35.0+k3s1"


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        # another version, a removed link, a package of four: these are there, and differ
        (rows("k3s", binary.differences(BinaryState(link=OLD), "k3s", "v1.36.2+k3s1", True)), ["binary", "link"]),
        (rows("k3s", binary.differences(BinaryState(there=True), "k3s", "v1.36.2+k3s1", True)), ["link"]),
        (rows("Container toolkit", toolkit.package_differences(ONE_OF_FOUR, "1.19.1")), ["package"] * 3),
        (rows("HAMi", helm.differences(ReleaseState(status="absent"), "2.9.0", {})), ["part"]),
        (rows("HAMi", helm.differences(FAILED, "2.9.0", {"a": {"b": 2}})), ["release", "release", "value"]),
        (rows("HAMi", helm.differences(ReleaseState(), "2.9.0", {})), ["release"]),
    ],
)  # fmt: skip
def test_what_is_there_and_differs_is_shown(found: list[Found], kinds: list[str]) -> None:
    assert [one["kind"] for one in report.as_data(found)["differences"]] == kinds


def test_the_fleet() -> None:
    hosts, lost = {"a": [ROW], "b": []}, {"c": "unreachable"}
    assert report.summary(hosts, lost, "pyinfra x").splitlines() == [
        "3 hosts: 1 as wanted, 1 differ, 1 not read",
        "  not read: c (unreachable)",
        "to make them as wanted: pyinfra x",
    ]
    data = report.document(hosts, lost, None)
    assert data["summary"] == {"hosts": 3, "as_wanted": 1, "differ": 1, "not_read": 1}
    assert data["not_read"] == lost
    (one,) = data["hosts"]["a"]["differences"]
    wanted = {"part": "k3s", "kind": "file", "what": "/etc/a", "found": "another text", "wanted": FILE.wanted}
    assert one == wanted
    assert data["hosts"]["b"] == {"differs": False, "differences": []}


def test_the_command_that_makes_it_right(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["/x/pyinfra", "inventory.py", "deploys/drift.py", "-y", "--data", "helm_version=v4.2.3"]
    monkeypatch.setattr(sys, "argv", typed)
    words = ["/x/pyinfra", "inventory.py", "deploys/gpu_node.py", "--data", "helm_version=v4.2.3"]
    assert drift._converge() == words
