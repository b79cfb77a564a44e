"""What a person would type on machines to put a cluster together: files written over SSH, and nothing of the deploys."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from rehearsal import access, lifecycle
from rehearsal.state import State

K3S = "https://mirror.rehearsal/k3s-io/k3s/releases/download/v1.36.2%2Bk3s1/k3s"
UNIT = """[Unit]
Wants=network-online.target
[Service]
Type=notify
KillMode=process
Delegate=yes
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStart=/usr/local/bin/k3s {role}
[Install]
WantedBy=multi-user.target
"""
TOOLKIT = """
install -d /etc/apt/keyrings
curl -fsS https://mirror.rehearsal/libnvidia-container/gpgkey | gpg --dearmor -o /etc/apt/keyrings/nvidia.gpg
echo 'deb [signed-by=/etc/apt/keyrings/nvidia.gpg] https://mirror.rehearsal/libnvidia-container/stable/deb/$(ARCH) /' \
  >/etc/apt/sources.list.d/nvidia.list
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y nvidia-container-toolkit >/dev/null
"""
HELM = """curl -fsS https://mirror.rehearsal/helm-v4.2.3-linux-amd64.tar.gz | tar -xz -C /usr/local/bin --strip-components=1
export KUBECONFIG=/etc/rancher/k3s/k3s.yaml
helm upgrade --install hami hami --repo https://mirror.rehearsal/HAMi --version 2.9.0 -n kube-system --wait \
  --timeout 120s"""


class Hand:
    """One machine and a shell on it."""

    def __init__(self, state: State, name: str) -> None:
        self.state, self.name = state, name
        self.address = next(one["address"] for one in state.read()["nodes"] if one["name"] == name)

    def run(self, script: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        command = [*access.ssh_command(self.state, self.name, "root"), "bash -s"]
        return subprocess.run(
            command, input=f"set -eu\n{script}", capture_output=True, text=True, check=False, timeout=seconds
        )

    def ok(self, script: str, seconds: float = 120) -> str:
        done = self.run(script, seconds)
        assert done.returncode == 0, f"{self.name}: {done.stdout}{done.stderr}"
        return done.stdout

    def kubectl(self, words: str) -> str:
        return self.ok(f"k3s kubectl {words}")

    def json(self, words: str) -> Any:
        return json.loads(self.kubectl(f"get {words} -o json"))

    def wait(self, script: str, seconds: float = 60) -> None:
        """Until the script succeeds."""
        end = time.monotonic() + seconds
        while (done := self.run(script)).returncode:
            assert time.monotonic() < end, f"{self.name}: {script}: {done.stdout}{done.stderr}"
            time.sleep(1)

    def install(self, role: str, **settings: Any) -> None:
        """Binary, unit and one file of settings; nothing is started. JSON is YAML, too."""
        unit = "k3s" if role == "server" else "k3s-agent"
        content = {"node-ip": self.address, "node-name": self.name, **settings}
        self.ok(f"""
test -x /usr/local/bin/k3s || curl -fsS -o /usr/local/bin/k3s {K3S}; chmod 755 /usr/local/bin/k3s
install -d -m 700 /etc/rancher/k3s/config.yaml.d
umask 077
cat >/etc/rancher/k3s/config.yaml.d/50-cluster.yaml <<'END'
{json.dumps(content)}
END
umask 022
cat >/etc/systemd/system/{unit}.service <<'END'
{UNIT.format(role=role)}
END
systemctl daemon-reload
systemctl enable -q {unit}""")

    def token(self, text: str) -> None:
        self.ok(f"umask 077; install -d /etc/rancher/k3s; printf %s '{text}' >/etc/rancher/k3s/token")

    def start(self, seconds: float = 60) -> None:
        """As systemd starts it: returns when it said that it is ready."""
        self.ok("systemctl start k3s.service 2>/dev/null || systemctl start k3s-agent.service", seconds)

    def join(self, server: Hand, role: str = "agent", **settings: Any) -> None:
        """By the full token of a server that is up, in a file of its own."""
        self.token(server.ok("cat /var/lib/rancher/k3s/server/token").strip())
        url = f"https://{server.address}:6443"
        self.install(role, server=url, **{"token-file": "/etc/rancher/k3s/token"}, **settings)
        self.start()

    def fault(self, add: tuple[str, ...] = (), clear: tuple[str, ...] = ()) -> None:
        lifecycle.change_faults(self.state.name, self.name, add, clear)
