"""Passwords of a proxy and of a registry: in no process list, no log, no report, no file that others may read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rehearsal import access
from tests.rehearsal import control_side, mirror_runs

pytestmark = pytest.mark.rehearsal
PROXY, REGISTRY = "S3CRET-of-the-proxy", "S3CRET-of-the-registry"
# Every command line that any user of the host could have seen, until the file `end` is there.
WATCH = """touch /run/watch; while [ ! -e /run/end ]; do
    cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -a 'S[3]CRET' >>/run/watch
    seen=$((seen + 1)); sleep 0.03
done; echo $seen; cat /run/watch"""
# Files with a password in them: mode, owner and name.
FILES = (
    "grep -rlaI S3CRET /etc /run /tmp /var /usr/local /root /home 2>/dev/null | xargs -r stat -c '%a %U %n'"
)


def test_mirror_passwords(rehearsal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULL_PASSWORD", REGISTRY)
    with rehearsal("secrets") as node:
        fleet = control_side.fleet(
            node,
            tmp_path / "fleet.yaml",
            https_proxy=f"http://somebody:{PROXY}@127.0.0.1:9",
            http_proxy=f"http://somebody:{PROXY}@127.0.0.1:9",
            no_proxy="mirror.rehearsal",
            k3s_registries={
                "configs": {"r.inside": {"auth": {"username": "u", "password": "env:PULL_PASSWORD"}}}
            },
        )
        watch = [*access.ssh_command(node.state, node.name, "root"), WATCH]
        with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watcher:
            done = mirror_runs.pyinfra(
                fleet, "deploys/gpu_node.py", (f"report_folder={tmp_path}/reports",), ("-vvv", "--debug")
            )
            node.run("touch /run/end")
            rounds, _, told = watcher.communicate(timeout=20)[0].partition("\n")
        assert done.returncode == 0, done.stdout[-3000:]
        assert int(rounds) > 100
        assert told == ""
        # They did reach what needs them, and nothing else: root's own files, and environments that only root can read.
        files = dict(reversed(line.rsplit(" ", 1)) for line in node.run(FILES).stdout.splitlines())
        assert {"/etc/rancher/k3s/hami-k3s.env", "/etc/rancher/k3s/registries.yaml"} <= set(files)
        assert set(files.values()) == {"600 root"}, files
        environment = "tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value k3s)/environ"
        assert PROXY in node.run(environment).stdout
        logs = "journalctl -o cat --no-pager; systemctl show k3s; cat /var/log/apt/* /run/hami-k3s/*/log"
        assert node.run(f"({logs}) | grep -ac S[3]CRET").stdout == "0\n"
    assert "S3CRET" not in done.stdout
    kept = [file for file in (tmp_path / "reports").rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if b"S3CRET" in file.read_bytes()]
