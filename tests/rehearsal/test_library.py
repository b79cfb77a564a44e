"""The wheel in somebody else's project: another folder, another inventory, another deploy. And the way back: reset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rehearsal.deploying import LAB, REPOSITORY, RESET, Ran, deploy, fleet, verdicts

pytestmark = pytest.mark.rehearsal

# What a platform engineer writes: own inventory, own names, our stages among own operations.
INVENTORY = """\
import os, yaml
fleet = yaml.safe_load(open(os.environ["MY_FLEET"]))
gpu_boxes = [(host.pop("name"), {**fleet["settings"], **host}) for host in fleet["hosts"]]
"""
DEPLOY = """\
from pyinfra.operations import files
from hami_k3s.stages import hami, k3s, label, preflight, toolkit
from hami_k3s.stages import verify

files.directory(name="Our own step", path="/opt/ours", _sudo=True)
preflight.gpu_host(_sudo=True)
for stage in (toolkit.container_toolkit, k3s.server, label.gpu_label, hami.helm_binary, hami.release, hami.ready):
    stage(_sudo=True)
verify.isolation(_sudo=True)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a release would carry it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(REPOSITORY),
    ]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel in it; only the dependencies are borrowed."""
    folder = tmp_path_factory.mktemp("theirs")
    venv.create(folder, symlinks=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # A path file of a path file is not read: of the dependencies' folder only the packages count, not our checkout.
    (site / "dependencies.pth").write_text(
        str(next(Path(sys.prefix, "lib").glob("python*/site-packages"))) + "\n"
    )
    return folder / "bin" / "python"


def test_the_wheel_has_what_a_run_needs_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {
        "hami_k3s/py.typed",
        "hami_k3s/probes/driver_probe.py",
        "hami_k3s/probes/nvcc_probe.cu",
        "hami_k3s/templates/k3s.service",
        "hami_k3s/templates/scripts/download.sh",
    } <= set(names)
    for path in (REPOSITORY / "templates").rglob("*"):
        assert path.is_dir() or f"hami_k3s/templates/{path.relative_to(REPOSITORY / 'templates')}" in names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"hami_k3s", "pyinfra_hami_k3s"}


def test_reset_then_another_project_brings_it_back(machines: Any, python: Path, tmp_path: Path) -> None:
    node = machines.ubuntu
    file = fleet(tmp_path / "fleet.yaml", node)
    _reset(node, file)
    project = tmp_path / "theirs"
    (project / "fleets").mkdir(parents=True)
    (project / "fleets" / "boxes.py").write_text(INVENTORY)
    (project / "gpu.py").write_text(DEPLOY)
    content = yaml.safe_load(file.read_text())
    content["settings"] |= {"hami_ready_timeout": 60, "report_folder": str(tmp_path / "reports")}
    own = tmp_path / "own-fleet.yaml"
    own.write_text(yaml.safe_dump(content))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "MY_FLEET": str(own)
    }
    where = [str(python), "-c", "import hami_k3s; print(hami_k3s.__file__)"]
    seen = subprocess.run(
        where, cwd=project, env=environment, capture_output=True, text=True, check=False
    ).stdout
    assert seen.startswith(str(python.parent.parent)), "the wheel's own package is used"
    command = [str(python), "-m", "pyinfra", "fleets/boxes.py", "gpu.py", "-y"]
    with node.broken("webhook-late=10"):
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False
        )
    ran = Ran(done.returncode, done.stdout + done.stderr)
    assert ran.status == 0, ran.text
    assert "HAMi: HAMi works after" in ran.text, "the webhook's late endpoints were waited for"
    (report,) = (tmp_path / "reports").glob(f"*/{node.name}.json")
    assert verdicts(json.loads(report.read_text())) == dict.fromkeys(LAB, "pass")
    again = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    ran = Ran(again.returncode, again.stdout + again.stderr)
    assert ran.status == 0, ran.text
    assert ran.changed == ["Verify | Two pods on one card, each held to its slice"], (
        "verify is never no change"
    )


def _reset(node: Any, file: Path) -> None:
    """HAMi goes, k3s stays; a second reset has nothing to do; then k3s goes too."""
    before = node.run("systemctl show -p MainPID k3s").stdout
    ran = deploy(file, RESET)
    assert ran.status == 0, ran.text
    shown = node.kubectl("get node -o jsonpath='{.items[0].metadata.annotations}{.items[0].metadata.labels}'")
    assert "hami.io/" not in shown
    assert '"gpu":' not in shown
    left = node.kubectl("get all,secrets,leases,configmaps,mutatingwebhookconfigurations -A -o name")
    assert "hami" not in left
    after = node.run("systemctl show -p MainPID k3s").stdout
    assert after != before, "it runs without the drop-in now"
    ran = deploy(file, RESET)
    assert (ran.status, ran.changed) == (0, [])
    assert node.run("systemctl show -p MainPID k3s").stdout == after
    ran = deploy(file, RESET, reset_k3s="true")
    assert ran.status == 0, ran.text
    assert node.run(
        "! ls /usr/local/bin/k3s /etc/rancher /var/lib/rancher /etc/systemd/system/k3s.service"
    ).ok
    assert node.run("! pgrep -x k3s; ! pgrep -f '[k]3s server'").ok
    ran = deploy(file, RESET, reset_k3s="true")
    assert (ran.status, ran.changed) == (0, [])
