"""A node boots as a real machine, installs from the mirror, and is gone without a trace at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal import access, cache, cleanup, faults, keys, lifecycle, network
from rehearsal.errors import RehearsalError
from rehearsal.state import State

pytestmark = pytest.mark.rehearsal

REPOSITORY = Path(__file__).resolve().parents[2]
KEYRING = "/etc/apt/keyrings/rehearsal-test.gpg"
SOURCE = f"""Types: deb
URIs: https://mirror.rehearsal/libnvidia-container/stable/deb/$(ARCH)
Suites: /
Signed-By: {KEYRING}
"""
URL = "https://mirror.rehearsal"
FETCH_KEY = f"install -d /etc/apt/keyrings && curl -sSf {URL}/libnvidia-container/gpgkey | gpg --dearmor --yes -o {KEYRING}"


def test_systemd_runs_everything(node: Any) -> None:
    assert node.run("systemctl is-system-running").stdout.strip() == "running"
    assert node.run("systemctl --failed --no-legend").stdout == ""
    assert node.run("stat -f -c %T /sys/fs/cgroup").stdout.strip() == "cgroup2fs"
    assert node.run("hostname").stdout.strip() == node.name
    assert node.run("ip route show default").stdout.startswith("default via")


def test_ubuntu_has_sudo(node: Any) -> None:
    assert node.run("sudo -n id -u", user="ubuntu").stdout.strip() == "0"


def test_the_fleet_file_reaches_the_node(node: Any) -> None:
    fleet = yaml.safe_load(node.fleet.read_text())
    (host,) = fleet["hosts"]
    assert host["ssh_hostname"] == "127.0.0.1"
    assert Path(host["ssh_key"]).stat().st_mode & 0o077 == 0
    assert f"[127.0.0.1]:{host['ssh_port']} ssh-ed25519" in Path(host["ssh_known_hosts_file"]).read_text()
    assert fleet["settings"]["toolkit_key_fingerprint"] == keys.fingerprint("right")


def test_the_card_is_seen_as_a_driver_shows_it(node: Any) -> None:
    shown = node.run("nvidia-smi --query-gpu=name,memory.total,compute_cap --format=csv,noheader").stdout
    assert shown == "NVIDIA RTX PRO 6000 Blackwell Server Edition, 97887 MiB, 12.0\n"
    assert node.run("nvidia-smi -L", user="ubuntu").stdout.startswith("GPU 0: NVIDIA RTX PRO 6000")
    assert "Open Kernel Module for x86_64  610.43.02" in node.run("cat /proc/driver/nvidia/version").stdout
    assert node.run("cat /sys/module/nvidia/version").stdout == "610.43.02\n"
    assert node.run("cat /sys/bus/pci/devices/*/vendor").stdout == "0x10de\n"
    assert "libcuda.so.1" in node.run("ldconfig -p").stdout


def test_toolkit_installs_from_the_signed_repository(node: Any) -> None:
    assert node.run(FETCH_KEY).ok
    node.run("cat > /etc/apt/sources.list.d/test.sources", stdin=SOURCE)
    try:
        updated = node.run("apt-get update")
        assert updated.ok, updated.stderr
        packages = "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1"
        wanted = " ".join(f"{name}=1.18.2-1" for name in packages.split())
        installed = node.run(f"DEBIAN_FRONTEND=noninteractive apt-get install -y {wanted}")
        assert installed.ok, installed.stderr
        assert "version 1.18.2" in node.run("nvidia-container-runtime --version").stdout
        assert "mode =" in node.run("cat /etc/nvidia-container-runtime/config.toml").stdout
        mixed = node.run(
            "apt-get install -y --simulate nvidia-container-toolkit=1.18.2-1 libnvidia-container1=1.19.1-1"
        )
        assert not mixed.ok, "packages of two versions must not go together"
        assert "Depends: libnvidia-container1 (= 1.18.2-1)" in mixed.stdout
    finally:
        node.run(
            "apt-get purge -y '*nvidia-container*'; rm -rf /etc/apt/sources.list.d/test.sources /etc/nvidia-container-runtime"
        )


def test_wrong_key_is_refused_by_apt_and_shown_by_its_fingerprint(node: Any) -> None:
    assert node.run(FETCH_KEY).ok
    node.run("cat > /etc/apt/sources.list.d/test.sources", stdin=SOURCE)
    try:
        with node.broken("wrong-key=repository"):
            refused = node.run("apt-get update -o APT::Update::Error-Mode=any")
            assert not refused.ok
            assert "NO_PUBKEY" in refused.stdout + refused.stderr
        with node.broken("wrong-key"):
            listing = node.run(
                f"curl -sS {URL}/libnvidia-container/gpgkey | gpg --show-keys --with-colons"
            ).stdout
            assert keys.fingerprint("wrong") in listing
            assert keys.fingerprint("right") not in listing
        assert node.run("apt-get update -o APT::Update::Error-Mode=any").ok
    finally:
        node.run("rm -f /etc/apt/sources.list.d/test.sources")


def test_downloads_match_their_sums_until_a_fault(node: Any) -> None:
    k3s = f"cd /tmp && rm -f k3s sums && curl -sSfO {URL}/k3s-io/k3s/releases/download/v1.36.2%2Bk3s1/k3s"
    sums = f"curl -sSf -o sums {URL}/k3s-io/k3s/releases/download/v1.36.2%2Bk3s1/sha256sum-amd64.txt"
    check = f"{k3s} && {sums} && grep ' k3s$' sums | sha256sum -c --quiet"
    assert node.run(check).ok
    with node.broken("bad-checksum"):
        assert "FAILED" in node.run(check).stdout
    helm = "helm-v4.2.3-linux-amd64.tar.gz"
    fetch = f"cd /tmp && curl -sSfO {URL}/{helm} && curl -sSfO {URL}/{helm}.sha256sum && sha256sum -c --quiet {helm}.sha256sum"
    assert node.run(fetch).ok
    assert (
        "v4."
        in node.run(
            f"cd /tmp && tar xzf {helm} && linux-amd64/helm version --short; rm -rf linux-amd64 helm-*"
        ).stdout
    )
    with node.broken("truncated"):
        assert node.run(f"curl -sSf -o /dev/null {URL}/{helm}").returncode == 18
    assert any(helm in line for line in node.requests())


def test_mirror_faults_come_and_go(node: Any) -> None:
    key = f"curl -sS -o /tmp/key -w '%{{http_code}} %{{content_type}}' {URL}/libnvidia-container/gpgkey"
    with node.broken("mirror-down"):
        assert node.run(key).stdout.startswith("503")
    with node.broken("html-key"):
        assert node.run(key).stdout.startswith("200 text/html")
    with node.broken("slow=2"):
        begun = time.monotonic()
        node.run(key)
        assert time.monotonic() - begun > 2
    assert node.run(key).stdout.startswith("200 application/")


def test_machine_faults_come_and_go(node: Any) -> None:
    with node.broken("no-gpu"):
        assert node.run("nvidia-smi").returncode == 127
        assert not node.run("ls /proc/driver/nvidia/version /sys/module/nvidia /dev/nvidia0").stdout
    with node.broken("mig"):
        assert node.run("nvidia-smi --query-gpu=mig.mode.current --format=csv,noheader").stdout == "Enabled\n"
    with node.broken("second-device-plugin"):
        assert (
            "DaemonSet"
            in node.run("cat /var/lib/rancher/k3s/server/manifests/nvidia-device-plugin.yaml").stdout
        )
    with node.broken("apt-lock=60"):
        held = node.run("apt-get install -y --reinstall curl")
        assert "Could not get lock /var/lib/dpkg/lock-frontend" in held.stderr
    assert node.run("nvidia-smi -L").ok
    assert node.run("! test -e /var/lib/rancher/k3s/server/manifests/nvidia-device-plugin.yaml").ok
    assert node.run("systemctl is-system-running").stdout.strip() == "running"


def test_a_node_comes_back_from_a_reboot(rehearsal: Callable[..., Any]) -> None:
    with rehearsal("reboot") as booted:
        before = booted.run("touch /root/stays; cat /proc/sys/kernel/random/boot_id").stdout
        booted.run("systemctl reboot")
        deadline = time.monotonic() + 60
        while booted.run("cat /proc/sys/kernel/random/boot_id").stdout in ("", before):
            assert time.monotonic() < deadline
            time.sleep(0.3)
        assert booted.run("systemctl is-system-running --wait").stdout.strip() == "running"
        assert booted.run("ls /root/stays && nvidia-smi -L").ok


def test_unknown_fault_names_the_nearest(node: Any) -> None:
    with pytest.raises(RehearsalError, match="Did you mean wrong-key"):
        node.fault(add=("wrong-kye",))
    assert set(faults.ALL) > {"no-gpu", "wrong-key", "registered-nothing"}


def traces(name: str) -> dict[str, list[str]]:
    """Everything on this machine that belongs to a rehearsal of this name."""
    found: dict[str, list[str]] = {"processes": [], "folders": []}
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cgroup").read_text() + (entry / "cmdline").read_text()
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue  # dead, and its parent is this test
        except OSError:
            continue
        if f"hami-{name}/" in text or f"hami-{name}.scope" in text or f"rehearsal.keeper\0{name}" in text:
            found["processes"].append(entry.name)
    found["mounts"] = [line for line in Path("/proc/mounts").read_text().splitlines() if name in line]
    found["namespaces"] = [path.name for path in Path("/run/netns").glob(f"*{name}*")]
    found["cgroups"] = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/hami-{name}*")]
    found["cgroups"] += [str(path) for path in Path("/sys/fs/cgroup").glob(f"hami-{name}*")]
    for folder in (State(name).folder, State(name).data):
        found["folders"] += [str(folder)] * folder.exists()
    return found


NOTHING: dict[str, list[str]] = {
    key: [] for key in ("processes", "folders", "mounts", "namespaces", "cgroups")
}


def links() -> list[str]:
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def test_down_leaves_nothing_and_nothing_is_in_the_machines_own_network(
    rehearsal: Callable[..., Any],
) -> None:
    before = links()
    with rehearsal("gone", nodes=2, card="l4", count=2, user="ubuntu") as booted:
        name = booted.state.name
        assert booted.names == ["l4-1", "l4-2"]
        assert booted.run("nvidia-smi -L").stdout.count("NVIDIA L4") == 2
        assert access.ssh(booted.state, "l4-2", ["sudo -n true"], user="ubuntu").returncode == 0
        assert links() == before
        during = traces(name)
        assert all(during[key] for key in ("processes", "folders", "namespaces"))
        with pytest.raises(RehearsalError, match=r"is up\. End it with"):
            lifecycle.up(name)
    assert traces(name) == NOTHING


def test_a_killed_keeper_takes_its_nodes_along_and_down_clears_the_rest(
    rehearsal: Callable[..., Any],
) -> None:
    with rehearsal("killed") as booted:
        name = booted.state.name
        os.kill(network.processes(name)[0], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while traces(name)["processes"] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert traces(name)["processes"] == []
        assert cleanup.down(booted.state) == []
        assert traces(name) == NOTHING


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_up_leaves_nothing(number: signal.Signals) -> None:
    name = f"t{os.getpid()}-cut{int(number)}"
    process = subprocess.Popen([sys.executable, "-m", "rehearsal", "up", "--name", name], cwd=REPOSITORY,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 60
    while not network.exists(name) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr
    assert traces(name) == NOTHING


def test_help_of_each_command() -> None:
    for command in ("up", "run", "ssh", "down", "list", "fault", "prepare"):
        done = subprocess.run([sys.executable, "-m", "rehearsal", command, "--help"], cwd=REPOSITORY, capture_output=True,
                              text=True, check=True)  # fmt: skip
        assert f"rehearsal {command}" in done.stdout
        if command in ("up", "run", "fault"):
            assert all(fault in done.stdout for fault in faults.ALL)


def test_the_cache_is_private() -> None:
    assert cache.root().stat().st_mode & 0o077 == 0


def test_ctrl_c_in_the_middle_of_a_run_leaves_nothing() -> None:
    name = f"t{os.getpid()}-run"
    command = [sys.executable, "-u", "-m", "rehearsal", "run", "--name", name]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)  # fmt: skip
    assert process.stdout
    said = []
    for line in process.stdout:
        said.append(line)
        if "Container toolkit" in line:  # pyinfra is at work on the node
            os.killpg(process.pid, signal.SIGINT)  # what a terminal does
            break
    rest, _ = process.communicate(timeout=60)
    said.append(rest)
    assert process.returncode == 130, "".join(said)
    assert "down: nothing left behind" in rest
    assert traces(name) == NOTHING
