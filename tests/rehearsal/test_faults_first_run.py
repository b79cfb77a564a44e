"""A fresh machine meets every fault on the way; each run names cause and fix, and the next one goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.deploying import GPU_NODE, Ran, deploy, fleet

pytestmark = pytest.mark.rehearsal

KEY = "/etc/apt/keyrings/nvidia-container-toolkit.asc"
LIBRARY = "/usr/local/lib/hami-k3s"
PREFLIGHT = "Preflight | The host can be a GPU node"


@pytest.fixture
def file(machines: Any, tmp_path: Path) -> Path:
    """The machine that the first run refused, without what failed runs have fetched ahead since."""
    machines.broken.run(f"systemctl stop 'hami-k3s-*'; rm -rf {LIBRARY}")
    return fleet(tmp_path / "fleet.yaml", machines.broken)


def failed_at(ran: Ran, step: str) -> None:
    """The run failed, and at this operation."""
    assert ran.status != 0, ran.text
    assert ran.last == step, ran.text


def test_every_problem_of_a_machine_at_once_before_any_change(machines: Any, file: Path) -> None:
    with machines.broken.broken("mig", "second-device-plugin"):
        look = "find /etc /usr/local /var/lib/rancher /run/hami-k3s -newer /proc/1 -type f | sort"
        before = machines.broken.run(look).stdout
        ran = deploy(file, GPU_NODE)
        after = machines.broken.run(look).stdout
    failed_at(ran, PREFLIGHT)
    assert "2 problems; nothing was changed on this host" in ran.text
    assert "mig: card 0 (NVIDIA RTX PRO 6000 Blackwell Server Edition) is in MIG mode" in ran.text
    assert "second-device-plugin: something else serves nvidia.com/gpu" in ran.text
    assert "/var/lib/rancher/k3s/server/manifests/nvidia-device-plugin.yaml" in ran.text
    assert before == after


def test_no_card(machines: Any, file: Path) -> None:
    with machines.broken.broken("no-gpu"):
        ran = deploy(file, GPU_NODE)
    failed_at(ran, PREFLIGHT)
    assert "This machine shows no NVIDIA card: rent one with a card" in ran.text


@pytest.mark.parametrize(
    ("fault", "step", "says"),
    [
        (
            "wrong-key",
            "Container toolkit | NVIDIA's repository",
            ("is the key", "refused", "set toolkit_key_fingerprint"),
        ),
        ("html-key", PREFLIGHT, ("gpgkey answers HTTP 200 with a web page", "set toolkit_repository_url")),
        ("mirror-down", PREFLIGHT, ("gpgkey: HTTP 503", "set toolkit_repository_url", "set k3s_release_url")),
    ],
)
def test_a_key_that_is_not_the_right_one(
    machines: Any, file: Path, fault: str, step: str, says: tuple[str, ...]
) -> None:
    node = machines.broken
    node.run(f"rm -f {KEY}")
    with node.broken(fault):
        ran = deploy(file, GPU_NODE)
    failed_at(ran, step)
    for words in says:
        assert words in ran.text
    assert node.run(f"! ls {KEY}*").ok


def test_a_repository_signed_by_another_key(machines: Any, file: Path) -> None:
    node = machines.broken
    node.run("rm -rf /var/lib/apt/lists/mirror.rehearsal*")
    with node.broken("wrong-key=repository"):
        ran = deploy(file, GPU_NODE)
    failed_at(ran, "Container toolkit | NVIDIA's repository")
    assert "is not signed by the key" in ran.text
    assert "toolkit_key_fingerprint" in ran.text
    assert node.run("! dpkg -l | grep nvidia-container").ok


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            "bad-checksum",
            ("sha256 of https://mirror.rehearsal", "is refused", "set k3s_release_url to another source"),
        ),
        ("truncated", ("could not fetch https://mirror.rehearsal", "set k3s_release_url to a mirror")),
    ],
)
def test_a_binary_that_is_not_the_released_one(
    machines: Any, file: Path, fault: str, says: tuple[str, ...]
) -> None:
    node = machines.broken
    with node.broken(fault):
        ran = deploy(file, GPU_NODE)
    failed_at(ran, "k3s | Verified binary")
    for words in says:
        assert words in ran.text
    assert node.run("! ls /usr/local/bin/k3s").ok
    assert node.run(f"find {LIBRARY} -type f -name '*k3s-v*'").stdout == ""
