"""`driver_install: true` on a card without a driver: from nothing, over a reboot, to a node that verify passes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.test_preflight import pyinfra

pytestmark = pytest.mark.rehearsal


def test_from_no_driver_to_a_verified_node(
    rehearsal: Callable[..., AbstractContextManager[Any]], tmp_path: Path
) -> None:
    with rehearsal("driver", profiles=("no-driver=reboot",)) as node:
        install = ("--data", "driver_install=true")
        refused = pyinfra(node.fleet, "deploys/gpu_node.py")
        assert refused.returncode == 1
        assert "no-driver: nvidia-smi: command not found" in refused.stderr
        assert node.run("dpkg-query -W 'nvidia*'").stdout == ""

        due = pyinfra(node.fleet, "deploys/gpu_node.py", *install)
        assert due.returncode == 1
        assert "needs a reboot: set driver_reboot: true" in due.stderr
        assert not node.run("ls /etc/rancher").ok

        done = pyinfra(node.fleet, "deploys/gpu_node.py", *install, "--data", "driver_reboot=true")
        assert done.returncode == 0, done.stderr
        assert "rebooting" in done.stderr
        assert "580.159.04-1" in node.run("dpkg-query -W nvidia-open").stdout
        blacklist = node.run("apt-config dump Unattended-Upgrade::Package-Blacklist").stdout
        assert '"libnvidia-"' in blacklist
        assert "580." in node.run("cat /etc/apt/preferences.d/50-hami-k3s-nvidia-driver").stdout

        again = pyinfra(node.fleet, "deploys/gpu_node.py", *install)
        assert again.returncode == 0, again.stderr
        assert "Success" not in again.stderr.split("Beginning operation run")[1].split("Results")[0]
        verified = pyinfra(node.fleet, "deploys/verify.py", "--data", f"report_folder={tmp_path}")
        assert verified.returncode == 0, verified.stderr
