"""Single stages run on a rehearsal's nodes, as a deploy of somebody's own would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")
STAGES = {
    "toolkit": "toolkit.container_toolkit()",
    "k3s": "k3s.server()",
    "label": "label.gpu_label()",
    "helm": "hami.helm_binary()",
    "chart": "hami.release()",
}


def run(
    folder: Path, fleet: Path, *stages: str, data: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """pyinfra with a deploy of these stages; `data` are `key=value` settings. stdout has both streams."""
    deploy = folder / "deploy.py"
    calls = "\n".join(STAGES[stage] for stage in stages)
    deploy.write_text(f"from hami_k3s.stages import hami, k3s, label, toolkit\n\n{calls}\n")
    return pyinfra(fleet, str(deploy), data=data, **environment)


def pyinfra(
    fleet: Path, deploy: str, data: tuple[str, ...] = (), more: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """One command as a person types it."""
    given = [word for one in data for word in ("--data", one)]
    return subprocess.run(
        [str(PYINFRA), "inventory.py", deploy, "-y", *given, *more],
        cwd=REPOSITORY,
        env={**os.environ, "GPU_FLEET": str(fleet), "PYTHONPATH": str(REPOSITORY / "pyinfra"), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
