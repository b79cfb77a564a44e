"""A node that reaches everything through a proxy with a password, and nothing without it; the password stays hidden."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal import access, inside, keys, network
from tests.rehearsal import control_side, mirror_runs

pytestmark = pytest.mark.rehearsal
TRUSTED = "/usr/local/share/ca-certificates/rehearsal.crt"
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
# What has the proxy in its environment, by name.
ENVIRONMENTS = (
    "grep -la S[3]CRET /proc/[0-9]*/environ 2>/dev/null | sed 's/environ$/comm/' | xargs -r cat | sort -u"
)


@contextlib.contextmanager
def proxy(node: Any) -> Iterator[list[str]]:
    """Filled with the tunnels at the end of the `with`."""
    words = [
        sys.executable,
        str(Path(__file__).with_name("proxy.py")),
        network.MIRROR_ADDRESS,
        "3128",
        f"u:{PROXY}",
    ]
    with subprocess.Popen(inside.command(node.state, words), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        tunnels: list[str] = []
        try:
            yield tunnels
        finally:
            running.terminate()
            tunnels += running.communicate(timeout=10)[0].splitlines()


def test_mirror_through_a_proxy(rehearsal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULL_PASSWORD", REGISTRY)
    url = f"http://u:{PROXY}@{network.MIRROR_ADDRESS}:3128"
    configs = {"r.inside": {"auth": {"username": "u", "password": "env:PULL_PASSWORD"}}}
    with rehearsal("proxied") as node:
        fleet = control_side.fleet(
            node,
            tmp_path / "fleet.yaml",
            http_proxy=url,
            https_proxy=url,
            no_proxy="intranet.example",
            k3s_registries={"configs": configs},
            report_folder=str(tmp_path / "reports"),
            private_ca=str(keys.folder() / "ca.crt"),
        )
        # Only the proxy knows where the mirror is, and only private_ca makes it trusted.
        node.run(f"sed -i /mirror/d /etc/hosts; rm {TRUSTED}; update-ca-certificates --fresh")
        watch = [*access.ssh_command(node.state, node.name, "root"), WATCH]
        with proxy(node) as tunnels, subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watcher:
            locked = control_side.releases(node, tmp_path, fleet, "lock")
            lock = str(tmp_path / "lock.yaml")
            more = ("-vvv", "--debug")
            done = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py", more=more, GPU_LOCK=lock)
            node.run("touch /run/end")
            rounds, _, told = watcher.communicate(timeout=20)[0].partition("\n")
        assert locked.returncode == 0, locked.stdout
        assert done.returncode == 0, done.stdout[-3000:]
        assert set(tunnels) >= {"CONNECT mirror.rehearsal:443", "CONNECT registry.k8s.io:443"}
        assert int(rounds) > 100
        assert told == ""
        files = dict(reversed(line.rsplit(" ", 1)) for line in node.run(FILES).stdout.splitlines())
        assert {"/etc/rancher/k3s/hami-k3s.env", "/etc/rancher/k3s/registries.yaml"} <= set(files)
        assert set(files.values()) == {"600 root"}, files
        assert set(node.run(ENVIRONMENTS).stdout.split()) <= {
            "k3s",
            "k3s-server",
            "containerd-shim",
            "python3",
        }
        assert (
            'NO_PROXY="intranet.example,localhost,127.0.0.0/8,10.0.0.0/8'
            in node.run("cat /etc/rancher/k3s/hami-k3s.env").stdout
        )
        logs = "journalctl -o cat --no-pager; systemctl show k3s; cat /var/log/apt/* /run/hami-k3s/*/log"
        assert node.run(f"({logs}) | grep -ac S[3]CRET").stdout == "0\n"
    assert "S3CRET" not in done.stdout + locked.stdout
    kept = [file for file in (tmp_path / "reports").rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if b"S3CRET" in file.read_bytes()]
