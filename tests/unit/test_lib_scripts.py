"""The scripts that run on a host are right for every shell there, and values are data in them whatever they hold."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hami_k3s.templating import render

EVIL = "it's $(touch INJECTED) `touch INJECTED` \"; touch INJECTED; # \\"
CHART = {
    "helm": EVIL,
    "chart_file": EVIL,
    "repository": EVIL,
    "chart_version": "2.9.0",
    "chart_words": [EVIL],
    "chart_sent": "",
    "judge": "j",
    "chart_sha256": "a" * 64,
    "limit": 3,
}
SCRIPTS: dict[str, dict[str, Any]] = {
    "apt-install.sh": {
        "packages": [EVIL, "b"],
        "update": True,
        "hold": [EVIL],
        "limit": 3,
        "sums": {},
        "judge": "j",
    },
    "apt-key.sh": {"url": EVIL, "fingerprint": EVIL, "key": EVIL},
    "apt-update.sh": {
        "url": EVIL,
        "fingerprint": "C95B",
        "source": EVIL,
        "limit": 3,
        "package": "t",
        "version": EVIL,
    },
    "download.sh": {
        "dest": EVIL,
        "url": EVIL,
        "sums_url": EVIL,
        "sums_name": EVIL,
        "member": EVIL,
        "sha256": "",
        "judge": EVIL,
        "sent": "",
        "shows": [EVIL],
        "version": EVIL,
        "most_mib": 1,
        "setting": "helm_release_url",
        "limit": 3,
        "limit_setting": "helm_download_timeout",
    },
    "driver-install.sh": {
        "repository": EVIL,
        "key": EVIL,
        "fingerprint": EVIL,
        "packages": [[EVIL, "b"], ["c"]],
        "root": EVIL,
        "branch": EVIL,
        "limit": 3,
    },
    "helm-release.sh": {
        **CHART,
        "release": EVIL,
        "namespace": EVIL,
        "kubeconfig": "/etc/rancher/k3s/k3s.yaml",
        "cache": "/run/c",
        "at_work": EVIL,
        "values_json": '{"a": "$(touch INJECTED)\\nHAMI_K3S_VALUES"}',
        "recover": "rollback",
        "status": "pending-upgrade",
        "good_revision": 3,
        "scheduler": EVIL,
        "scheduler_hint": "hami_values",
    },
    "chart.sh": CHART,
    "helm-chart.sh": {**CHART, "helm_unit": "hami-k3s-helm-download.service"},
    "fetch.sh": {"limit": 3},
    "images.sh": {
        "store": EVIL,
        "folder": EVIL,
        "judge": EVIL,
        "most_mib": 1,
        "limit": 3,
        "archives": [
            {"name": EVIL, "url": EVIL, "sha256": sha256, "index": EVIL, "what": EVIL}
            for sha256 in ("", EVIL)
        ],
        "links": {EVIL: EVIL},
        "prefix": EVIL,
        "list": "$(touch INJECTED)\n",
        "list_file": EVIL,
    },
    "k3s-switch.sh": {
        "binary": EVIL,
        "public": EVIL,
        "unit": "k3s",
        "server": EVIL,
        "keep": 3,
        "snapshot": EVIL,
        "before": EVIL,
    },
    "probe.sh": {
        "kubectl": "k3s kubectl",
        "namespace": "n",
        "probes": [{"pod": name, "command": "python3 /tmp/probe.py"} for name in ("a", "b")],
        "query": "nvidia-smi",
        "limit": 3,
        "meeting": EVIL,
    },
    "reset-hami.sh": {
        "helm": EVIL,
        "release": EVIL,
        "namespace": EVIL,
        "kubeconfig": "/etc/rancher/k3s/k3s.yaml",
        "cache": "/run/c",
        "at_work": EVIL,
        "owner": EVIL,
        "fullname": EVIL,
        "installed": True,
        "library": "/nonexistent",
        "limit": 3,
    },
    "reset-node.sh": {
        "node": EVIL,
        "namespace": EVIL,
        "cache": "/run/c",
        "annotations": [EVIL],
        "pods": [[EVIL, EVIL]],
    },
    "reset-host.sh": {"held": [EVIL], "rewritten": ":", "paths": [EVIL], "folders": [EVIL], "limit": 3},
    "reset-k3s.sh": {
        "root": EVIL,
        "library": "/l",
        "begun": "/l/k3s-removal",
        "paths": [EVIL],
        "folders": [EVIL],
    },
    "reset-toolkit.sh": {
        "root": EVIL,
        "packages": [EVIL, "b"],
        "all": [EVIL],
        "authority": "/a.crt",
        "library": "/l",
        "key": "/k",
        "source": "/s",
        "aside": ".aside",
        "store": "/store",
        "folders": [EVIL],
        "limit": 3,
    },
}
NAMES = {
    "binary": "/usr/local/bin/k3s",
    "inputs": "/i",
    "started": "/run/s",
    "proxies": "/p",
    "authority": "/a",
    "library": "/usr/local/lib/hami-k3s",
    "unit": "k3s",
}
SHELLCHECK = shutil.which("shellcheck")


def text(name: str) -> str:
    if name == ONE_HOST:
        return render("scripts/probe.sh", **{**SCRIPTS["probe.sh"], "meeting": ""})
    return render(f"scripts/{name}", **SCRIPTS[name]) if name in SCRIPTS else render(name, **NAMES)


ONE_HOST = "probe.sh where the server has the card"
EVERY = [*SCRIPTS, ONE_HOST, "k3s-inputs", "k3s-killall.sh", "k3s-uninstall.sh"]


def test_every_script_is_here() -> None:
    folder = Path(__file__).resolve().parents[2] / "templates" / "scripts"
    assert {path.name for path in folder.iterdir()} == set(SCRIPTS)


@pytest.mark.parametrize("shell", [name for name in ("sh", "dash", "bash") if shutil.which(name)])
@pytest.mark.parametrize("name", EVERY)
def test_syntax(name: str, shell: str) -> None:
    done = subprocess.run([shell, "-n"], input=text(name), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("name", EVERY)
def test_shellcheck(name: str) -> None:
    command = [str(SHELLCHECK), "--shell=sh", "--severity=warning", "-"]
    plain = text(name).replace(shlex.quote(EVIL), "plain")  # it warns of the quotes in such a value itself
    done = subprocess.run(command, input=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("outcome", ["fails", "works", "fails and the script goes on"])
@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - {"probe.sh"}))
def test_values_are_never_run(name: str, outcome: str, tmp_path: Path) -> None:
    """The script runs over such values, with stand-ins for every command that would change this machine."""
    tools = tmp_path / "bin"
    tools.mkdir()
    status = 0 if outcome == "works" else 1
    for tool in (
        "curl",
        "apt-cache",
        "apt-get",
        "apt-mark",
        "dpkg",
        "gpg",
        "helm",
        "k3s",
        "update-ca-certificates",
    ):
        (tools / tool).write_text(f"#!/bin/sh\nexit {status}\n")
        (tools / tool).chmod(0o755)
    (tools / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    (tools / "systemctl").chmod(0o755)
    script = text(name)
    if outcome == "fails and the script goes on" and name not in (
        "apt-update.sh",
        "helm-chart.sh",
        "reset-host.sh",
    ):  # they would wait for ever
        script = script.replace("set -eu", "set -u").replace("exit", ": exit")
    subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=20,
        check=False,
    )
    assert not (tmp_path / "INJECTED").exists()
