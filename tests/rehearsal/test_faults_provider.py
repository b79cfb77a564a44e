"""Something else serves nvidia.com/gpu: the preflight names it before HAMi is there, verify afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.deploying import GPU_NODE, deploy, fleet, not_passed, verify

pytestmark = pytest.mark.rehearsal

NEEDS_PODS = {"co-resident", "slice-visible", "refused", "pending", "mechanism"}


def test_a_second_device_plugin_is_named_before_and_after(machines: Any, tmp_path: Path) -> None:
    lab = machines.lab
    file = fleet(tmp_path / "fleet.yaml", lab)
    before = lab.standing()
    with lab.broken("second-device-plugin"):
        refused = deploy(file, GPU_NODE)
        assert refused.status != 0
        assert (
            "second-device-plugin: something else serves nvidia.com/gpu: manifest /var/lib/rancher/k3s"
            in refused.text
        )
        assert "HAMi must be alone" in refused.text
        end = time.monotonic() + 20
        while lab.kubectl("get node -o jsonpath='{.items[0].status.allocatable.nvidia\\.com/gpu}'") != "1":
            assert time.monotonic() < end, "the other plugin did not win the socket"
            time.sleep(0.3)
        ran, reports = verify(file, tmp_path / "reports")
    assert ran.status != 0
    assert not_passed(reports[lab.name]) == {"fail": {"sole-provider", "allocatable"}, "skip": NEEDS_PODS}, (
        ran.text
    )
    assert "DaemonSet kube-system/nvidia-device-plugin-daemonset" in str(reports[lab.name])
    assert "another device plugin won kubelet's socket" in ran.text
    # k3s leaves what a removed manifest made: do what the message says.
    lab.kubectl("-n kube-system delete daemonset nvidia-device-plugin-daemonset")
    lab.new_handshake()
    mended = deploy(file, GPU_NODE, hami_ready_timeout=60)
    assert mended.status == 0, mended.text
    assert lab.standing() == before
