"""A machine loses its SSH sessions, its k3s, its disk or its power while a command is at work on it: the same command, typed
again, finishes the job. One machine for each, through converge, verify and reset."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.conftest import Node
from tests.rehearsal.deploying import GPU_NODE, RESET, VERIFY, Ran, deploy, fleet
from tests.rehearsal.interruption import (
    PODS,
    RESET_ALL,
    Undisturbed,
    difference,
    disturbed,
    finish,
    looks,
    lose_sessions,
    together,
)

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.skipif(
        os.environ.get("REHEARSAL_INTERRUPTION") != "all",
        reason="takes 6 minutes: set REHEARSAL_INTERRUPTION=all",
    ),
]

Boots = Callable[..., AbstractContextManager[Node]]
HELM, TOOLKIT = (
    "systemctl is-active --quiet hami-k3s-helm.service",
    "systemctl is-active --quiet hami-k3s-toolkit.service",
)
RESETTING = "systemctl is-active --quiet hami-k3s-reset-hami.service"
LOST = "the connection to the host was lost. Run the same command again: it finishes the job"
# What has no room, and what is said then.
FOLDERS = {
    "/var/cache/apt/archives": "You don't have enough free space in /var/cache/apt/archives",
    "/usr/local/lib/hami-k3s": "KiB are free under /usr/local/lib/hami-k3s. Free some room there",
    "/tmp": "Free some room first",
}
REMOVING = "systemctl is-active --quiet hami-k3s-reset-k3s.service"


def kill_k3s(node: Node) -> None:
    """As the kernel does when memory runs out."""
    node.run("kill -9 $(systemctl show -p MainPID --value k3s)")


def reboot(node: Node) -> None:
    """And wait until it is back."""
    node.run("touch /run/before-the-reboot; systemctl reboot")
    up = "test ! -e /run/before-the-reboot && { systemctl is-system-running --wait; true; }"
    end = time.monotonic() + 60
    while not node.run(up).ok:
        assert time.monotonic() < end
        time.sleep(0.3)


def without_room(node: Node, file: Path, what: str, folder: str, **data: object) -> Ran:
    """The command while nothing more fits into a folder."""
    small = f"mkdir -p {folder} && mount -t tmpfs -o size=64k none {folder}"
    assert node.run(f"{small} && dd if=/dev/zero of={folder}/full bs=64k count=1").ok
    ran = deploy(file, what, **data)
    assert node.run(f"umount {folder}").ok
    return ran


def says(ran: Ran, *words: str) -> None:
    """It failed, and said so in these words."""
    assert ran.status != 0, ran.text
    for one in words:
        assert one in ran.text, ran.text


class Machines:
    """Four machines; each has its own trouble, again and again."""

    def __init__(self, nodes: list[Node], folder: Path) -> None:
        self.all, self.folder = nodes, folder
        self.lost, self.killed, self.rebooted, self.full = nodes
        self.files = {node.name: fleet(folder / f"{node.name}.yaml", node) for node in nodes}

    def hit(self, node: Node, what: str, moment: str, act: Callable[[Any], object], **data: object) -> Ran:
        return disturbed(node, self.files[node.name], what, moment, act, **data)

    def filled(self, what: str, *folders: str, **data: object) -> list[Ran]:
        """One command after the other on the machine whose disk is full, each with another folder that is."""
        return [
            without_room(self.full, self.files[self.full.name], what, folder, **data) for folder in folders
        ]


@pytest.fixture(scope="module")
def machines(rehearsal: Boots, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """These tests come one after the other: to a GPU node, its proof, and back."""
    with rehearsal("faults", nodes=4) as booted:
        nodes = [Node(booted.state, name) for name in booted.names]
        yield Machines(nodes, tmp_path_factory.mktemp("faults"))


def test_interruption_of_converge(machines: Machines, undisturbed: Undisturbed, record_property: Any) -> None:
    lost, killed, rebooted, full = together(
        partial(machines.hit, machines.lost, GPU_NODE, HELM, lose_sessions),
        partial(machines.hit, machines.killed, GPU_NODE, HELM, kill_k3s),
        partial(machines.hit, machines.rebooted, GPU_NODE, HELM, reboot),
        partial(machines.filled, GPU_NODE, *FOLDERS),
    )
    for ran in (lost, rebooted):
        says(ran, LOST)
    # helm may have got over it
    assert killed.status == 0 or killed.last == "HAMi | Release", killed.text
    for ran, words in zip(full, FOLDERS.values(), strict=True):
        says(ran, words)
    problems = finish(machines.folder / "converge", machines.all, GPU_NODE, undisturbed.converge.looks)
    told(record_property, "converge", problems)


def test_interruption_of_verify(machines: Machines, undisturbed: Undisturbed, record_property: Any) -> None:
    lost, killed, rebooted, full = together(
        partial(machines.hit, machines.lost, VERIFY, PODS, lose_sessions),
        partial(machines.hit, machines.killed, VERIFY, PODS, kill_k3s),
        partial(machines.hit, machines.rebooted, VERIFY, PODS, reboot),
        partial(machines.filled, VERIFY, "/tmp"),
    )
    for ran in (lost, rebooted):
        says(ran, LOST)
    assert killed.status == 0 or " error " in killed.text, killed.text
    says(full[0], "free some room there")
    ran = deploy(fleet(machines.folder / "verify.yaml", *machines.all), VERIFY)
    assert ran.status == 0, ran.text
    wanted = undisturbed.converge.looks
    told(record_property, "verify", {node.name: difference(wanted, looks(node)) for node in machines.all})


def test_interruption_of_reset(machines: Machines, undisturbed: Undisturbed, record_property: Any) -> None:
    lost, killed, rebooted, full = together(
        partial(machines.hit, machines.lost, RESET, REMOVING, lose_sessions, **RESET_ALL),
        partial(machines.hit, machines.killed, RESET, RESETTING, kill_k3s),
        partial(machines.hit, machines.rebooted, RESET, REMOVING, reboot, **RESET_ALL),
        partial(machines.filled, RESET, "/tmp", **RESET_ALL),
    )
    for ran in (lost, rebooted):
        says(ran, LOST)
    assert killed.status == 0 or killed.last.startswith("Reset | HAMi"), killed.text
    ran = deploy(machines.files[machines.killed.name], RESET)
    assert ran.status == 0, ran.text
    assert full[0].status == 0 or "Reset" in full[0].last, full[0].text
    problems = finish(machines.folder / "reset", machines.all, RESET, undisturbed.reset.looks, **RESET_ALL)
    told(record_property, "reset", problems)


def told(record_property: Any, what: str, problems: dict[str, list[str]]) -> None:
    """The figure of one command, and what is not as it should be."""
    good = sum(not found for found in problems.values())
    names = "sessions lost, k3s killed, node rebooted, disk full"
    record_property(
        "interruption", f"{what} disturbed ({names}): finished by the next run on {good} of {len(problems)}"
    )
    assert not any(problems.values()), problems
