"""The commands as a person types them. Nothing is contacted: each ends before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYINFRA = str(Path(sys.executable).parent / "pyinfra")


def pyinfra(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("GPU_")}
    return subprocess.run(
        [PYINFRA, *arguments],
        cwd=cwd,
        env={**own, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


pytestmark = pytest.mark.skipif((ROOT / "fleet.yaml").exists(), reason="this checkout has a fleet of its own")


def test_no_hosts_from_another_folder(tmp_path: Path) -> None:
    done = pyinfra(str(ROOT / "inventory.py"), str(ROOT / "deploys" / "verify.py"), cwd=tmp_path)
    assert done.returncode == 1
    assert "no hosts given" in done.stderr
    assert "GPU_NODES=root@203.0.113.7" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_unknown_setting_on_the_command_line() -> None:
    done = pyinfra(
        "inventory.py",
        "deploys/gpu_node.py",
        "--data",
        "k3s_verison=v1.36.2+k3s1",
        GPU_NODES="root@192.0.2.1",
    )
    assert done.returncode == 1
    assert "k3s_verison: unknown setting; did you mean k3s_version?" in done.stderr


def test_limit_that_matches_nothing() -> None:
    done = pyinfra("-y", "--limit", "nothing", "inventory.py", "deploys/verify.py", GPU_NODES="@local")
    assert done.returncode == 1, done.stdout + done.stderr


def test_exclude_that_leaves_nothing() -> None:
    done = pyinfra("-y", "--exclude", "@local", "inventory.py", "deploys/verify.py", GPU_NODES="@local")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no host was used" in done.stderr
