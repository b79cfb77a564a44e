"""Several machines of one cluster, each a k3s stand-in in a folder of its own with ports of its own, all on loopback."""

import contextlib
import json
import os
import random
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.standin import standin

SERVER_TOKEN = "var/lib/rancher/k3s/server/token"


def free_ports(count: int) -> int:
    """The first of that many free ports in a row, below those that the kernel gives away by itself."""
    while True:
        first = random.randrange(15000, 30000)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


class Machine(standin.Node):
    """`role` is the k3s command; `settings` its one drop-in."""

    def __init__(self, folder: Path, name: str, role: str, card: bool = True, **settings: Any) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.port = free_ports(3)
        self.name, self.role, self.begun = name, role, 0
        self.settings = {"node-name": name, "node-ip": "127.0.0.1", **settings}
        self.write_settings()
        cards = [{**standin.CARD, "uuid": standin.CARD["uuid"][:-6] + f"{name:0>6}"[-6:]}] if card else []
        self.faults(cards=cards)
        if not card:
            (self.root / "usr/bin/nvidia-container-runtime").unlink()

    def write_settings(self) -> None:
        self.config(json.dumps(self.settings))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.root / SERVER_TOKEN).read_text().strip()

    def launch(self, **env: str) -> None:
        """Starts and waits for nothing."""
        log = (self.root / "k3s.log").open("ab")
        self.begun = log.tell()
        self.process = subprocess.Popen([self.k3s, self.role], env=self.env | env, stdout=log, stderr=log)
        log.close()

    def says(self, text: str, seconds: float = 20) -> None:
        """In its log, since it was launched last."""
        self.wait(lambda: text in self.log()[self.begun :], seconds)

    def up(self, seconds: float = 30) -> None:
        self.says("agent is up and running" if self.role == "agent" else "k3s is up and running", seconds)

    def join(self, seconds: float = 30) -> None:
        self.launch()
        self.up(seconds)

    def kill(self) -> None:
        """Without a word to anybody."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(5)

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "REHEARSAL_NODE_GRACE": os.environ.get("TEST_NODE_GRACE", "12")}

    def ready(self, *names: str) -> bool:
        """Are exactly these nodes Ready, as this server sees it?"""
        found = self.run("kubectl", "get", "nodes", "-o", "json", "--request-timeout=5s")
        if found.returncode:
            return False
        return {n["metadata"]["name"] for n in json.loads(found.stdout)["items"] if _ready(n)} == set(names)


def _ready(node: Any) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
