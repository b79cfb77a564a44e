"""A k3s stand-in that runs on this machine, under a folder of its own, for the contract tests of the cluster."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from rehearsal.standin.build import build_chart, build_k3s

BIN = Path("/root/.cache/hami-k3s-rehearsal/bin")
UUID = "GPU-3c4a3856-fbb4-1425-9679-aed25f4d2977"
CARD = {
    "index": 0,
    "uuid": UUID,
    "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "memory_mib": 97887,
    "compute_cap": "12.0",
    "mig": "Disabled",
    "bus_id": "00000000:05:00.0",
}
RUNTIME = """#!/bin/sh
[ "$1" = rehearsal-inject ] || exit 1
mkdir -p "$2/run/rehearsal"
echo "$NVIDIA_VISIBLE_DEVICES" | tr , '\\n' > "$2/run/rehearsal/visible"
"""


def missing() -> str | None:
    """Why the stand-in cannot run here."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("helm", "kubectl"):
        if not (BIN / tool).exists():
            return f"{BIN / tool} is not there"
    probe = ["/usr/bin/python3", "-c", "import aiohttp, cryptography, yaml"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        return "/usr/bin/python3 lacks aiohttp, cryptography or yaml (python3-aiohttp python3-cryptography python3-yaml)"
    done = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "may not mount" if done.returncode else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Node:
    """One server; `root` stands for `/`."""

    def __init__(self, root: Path, version: str = "v1.36.2+k3s1") -> None:
        self.root, self.port = root, free_port()
        self.k3s = build_k3s(version, root / "k3s")
        self.process: subprocess.Popen[bytes] | None = None
        self.kubeconfig = root / "etc/rancher/k3s/k3s.yaml"
        for folder in (
            "etc/rancher/k3s/config.yaml.d",
            "sys/fs/cgroup",
            "usr/bin",
            "usr/lib/rehearsal",
            "etc/rehearsal",
        ):
            (root / folder).mkdir(parents=True)
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        (root / "usr/lib/rehearsal/image").symlink_to("/")
        self.write("usr/bin/nvidia-container-runtime", RUNTIME).chmod(0o755)
        self.write("usr/bin/nvidia-smi", "#!/bin/sh\n").chmod(0o755)
        library = [
            "gcc",
            "-shared",
            "-fPIC",
            "-x",
            "c",
            "/dev/null",
            "-o",
            str(root / "usr/lib/rehearsal/libvgpu.so"),
        ]
        if subprocess.run(library, capture_output=True, check=False).returncode:
            self.write("usr/lib/rehearsal/libvgpu.so", "not a library")
        self.config("default-runtime: nvidia\nnode-name: rtx-1\n")
        self.faults()

    def write(self, path: str, text: str) -> Path:
        (self.root / path).write_text(text)
        return self.root / path

    def config(self, text: str) -> None:
        self.write("etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml", text)

    def faults(self, *names: str, **more: Any) -> None:
        content = {"name": "rtx-1", "faults": list(names), "cards": [CARD], **more}
        scratch = self.write("etc/rehearsal/node.new", json.dumps(content))
        scratch.rename(self.root / "etc/rehearsal/node.json")

    @property
    def env(self) -> dict[str, str]:
        own = {"REHEARSAL_ROOT": str(self.root), "REHEARSAL_API_PORT": str(self.port)}
        home = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.root)}
        return {"PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin", "INVOCATION_ID": "1", **own, **home}

    def start(self) -> None:
        log = (self.root / "k3s.log").open("ab")
        self.process = subprocess.Popen([self.k3s, "server"], env=self.env, stdout=log, stderr=log)
        self.wait(lambda: self.run("kubectl", "get", "--raw", "/readyz").stdout == "ok", 10)

    def stop(self) -> None:
        """What `systemctl stop` does with KillMode=process: pods keep running."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)

    def destroy(self) -> None:
        self.stop()
        for pid in self.root.glob("run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/*/pid"):
            try:
                os.kill(int(pid.read_text()), signal.SIGKILL)
            except (OSError, ValueError):
                continue

    def log(self) -> str:
        return (self.root / "k3s.log").read_text()

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self.env, input=stdin, capture_output=True, text=True, check=False, timeout=60
        )

    def ok(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}\n{self.log()[-3000:]}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok("kubectl", "get", *words, "-o", "json"))

    def wait(self, good: Any, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if good():
                return
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s\n{self.log()[-3000:]}")

    def install(self, version: str = "2.9.0", *more: str) -> None:
        archive = build_chart(version, self.root)
        self.ok(
            "helm",
            "upgrade",
            "--install",
            "hami",
            str(archive),
            "-n",
            "kube-system",
            "--wait",
            "--timeout",
            "60s",
            *more,
        )

    def endpoints(self) -> bool:
        found = self.run("kubectl", "-n", "kube-system", "get", "endpoints", "hami-scheduler", "-o", "json")
        return found.returncode == 0 and bool(json.loads(found.stdout).get("subsets"))

    def events(self, pod: str) -> list[tuple[str, str, str]]:
        found = self.json("events", "--field-selector", f"involvedObject.name={pod}")
        return [(e["source"]["component"], e["reason"], e["message"]) for e in found["items"]]


def pod(name: str, memory: int, image: str = "docker.io/library/python:3.12-slim", **spec: Any) -> str:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory} if memory else {}
    container = {
        "name": "main",
        "image": image,
        "command": ["sleep", "infinity"],
        "resources": {"limits": limits},
    }
    body = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body})
