"""Every host that preflight names, broken for real on a node: its code appears, and a healthy node shows none.

What no node can be (another process 1, a container, Secure Boot) is in tests/unit/test_lib_preflight_catalogue.py.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_k3s.facts import batch, cluster, host
from hami_k3s.preflight import CATALOGUE, Judgement, Look, judge
from hami_k3s.preflight.network import ports, sources
from hami_k3s.settings import Settings, check
from rehearsal import breakage

pytestmark = pytest.mark.rehearsal

ROOT = Path(__file__).resolve().parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")
# fault -> the codes that it shows, and no others
CASES: dict[str, set[str]] = {
    "no-gpu": {"no-device"},
    "no-driver": {"no-driver"},
    "nouveau": {"nouveau"},
    "other-kernel": {"module-other-kernel"},
    "library-mismatch": {"driver-mismatch"},
    "driver-old": {"driver-old"},
    "closed-module": {"module-closed"},
    "open-module-old-card": {"module-open"},
    "mig": {"mig"},
    "mig-pending": {"mig-pending"},
    "compute-exclusive": {"compute-mode"},
    "persistence-off": {"persistence-off"},
    "ecc-errors": {"ecc-errors"},
    "nvswitch": {"fabric-manager"},
    "xid": {"xid-fatal"},
    "xid=31": {"xid"},
    "no-sudo": {"not-root"},
    "os": {"os"},
    "os=debian:11": {"os"},
    "machine": {"architecture"},
    "disk-full": {"disk", "disk-nearly-full"},
    "little-memory": {"memory"},
    "little-memory=2048": {"memory-little"},
    "clock-off": {"clock"},
    "clock-off=-90": {"clock"},
    "bad-hostname": {"hostname"},
    "port-taken": {"port-taken"},
    "ufw": {"firewall"},
    "firewalld": {"firewall"},
    "proxy-partial": {"proxy-partial"},
    "apt-sources": {"apt-sources"},
    "apt-toolkit-source": {"apt-toolkit-source"},
    "apt-lock=60": {"apt-lock"},
    "dpkg-interrupted": {"dpkg-interrupted"},
    "half-configured": {"dpkg-interrupted"},
    "first-boot": {"first-boot"},
    "held": {"held"},
    "driver-upgrades": {"driver-upgrades"},
    "mirror-down": {"source-refused"},
    "html-key": {"source-html"},
    "portal": {"source-html"},
    "slow=3": {"source-slow"},
    "slow=20": {"source-slow"},
    "second-device-plugin": {"second-device-plugin"},
    "operator-leftover": {"operator-leftover"},
    "other-kubelet": {"other-kubelet"},
    "k3s-there": {"k3s-newer", "k3s-foreign"},
    "k3s-there=v1.34.1+k3s1": {"k3s-older", "k3s-foreign"},
    "k3s-flags": {"k3s-flags"},
    "k3s-agent": {"k3s-other-cluster"},
}


def settings(node: Any, **changes: Any) -> Settings:
    """Those of the node's fleet file."""
    return check({**yaml.safe_load(node.fleet.read_text())["settings"], **changes})


def looked(node: Any, user: str = "root", inside: bool = False, **changes: Any) -> Judgement:
    """What preflight says of the node; `inside`: with what its k3s says."""
    want = settings(node, **changes)
    wanted = sources(want)
    script = batch.script(host.probes(ports(want), wanted))
    said = node.run(f"sh -c {shlex.quote(script)}", user=user)
    assert said.ok
    state, seen = host.parse(said.stdout.splitlines(), wanted), None
    if inside:
        assert state.k3s_active
        command = cluster.Cluster().command().get_raw_value()
        seen = cluster.parse(node.run(f"sh -c {shlex.quote(command)}").stdout.splitlines())
        assert seen.answers
    return judge(Look(state, want, seen, node.name))


def codes(found: Judgement) -> set[str]:
    return {one.code for one in found.problems}


def test_a_healthy_node_shows_none(node: Any) -> None:
    begun = time.monotonic()
    found = looked(node)
    assert time.monotonic() - begun < 5
    assert found.problems == ()
    assert set(found.unknown) <= {"xid-fatal"}  # a container may not read the kernel log
    assert looked(node, user="ubuntu").problems == ()


@pytest.mark.parametrize("fault", CASES)
def test_a_broken_node_shows_its_own_code(node: Any, fault: str) -> None:
    with node.broken(fault):
        user = "ubuntu" if fault == "no-sudo" else "root"
        deadline = time.monotonic() + 10
        while codes(found := looked(node, user=user)) != CASES[fault] and time.monotonic() < deadline:
            time.sleep(0.5)  # units start by themselves
        assert codes(found) == CASES[fault], found
        assert "secret" not in str(found.problems)


def test_nothing_is_left_of_the_faults(node: Any) -> None:
    assert looked(node).problems == ()


def test_every_fault_of_a_host_has_a_case() -> None:
    tried = {fault.partition("=")[0] for fault in CASES}
    assert set(breakage.ALL) | set(breakage.MORE) <= tried
    assert {code for expected in CASES.values() for code in expected} <= {entry.code for entry in CATALOGUE}


def test_a_source_that_cannot_be_reached(node: Any) -> None:
    found = looked(
        node, helm_release_url="https://nowhere.rehearsal", k3s_release_url="https://127.0.0.1:9/k3s"
    )
    assert [one.code for one in found.problems] == ["source-unreachable", "source-unreachable"]
    assert "helm_release_url" in str(found.problems[1])


def test_a_node_port_that_is_kept_and_taken(node: Any) -> None:
    values = {"scheduler": {"service": {"type": "NodePort", "schedulerPort": 31998}}}
    listen = "import socket,time; s=socket.socket(); s.bind(('', 31998)); s.listen(); time.sleep(60)"
    node.run(f"systemd-run --collect --unit=nodeport python3 -c {shlex.quote(listen)}")
    try:
        time.sleep(0.5)
        assert codes(looked(node, hami_values=values)) == {"port-taken"}
        assert codes(looked(node)) == set()
    finally:
        node.run("systemctl stop nodeport")


# Files that change by themselves on a running machine, and sockets' own
CHANGING = r"^/(proc|sys|dev|run|tmp)[/ ]|^/var/(log|lib/systemd|lib/rehearsal)[/ ]"
SNAPSHOT = (
    f"find / -xdev -printf '%p %T@ %s %m %l\\n' | grep -vE '{CHANGING}' | sort; dpkg-query -W; "
    "systemctl list-units --all --no-legend --plain | awk '$1 ~ /service|timer/ {print $1, $2, $3}' "
    "| grep -vE 'user|session|ssh@' | sort; find /tmp /run/hami-k3s 2>/dev/null | sort"
)


def pyinfra(fleet: Path, deploy: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PYINFRA), "inventory.py", deploy, "-y", *arguments],
        cwd=ROOT,
        env={**os.environ, "GPU_FLEET": str(fleet)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_preflight_changes_nothing(node: Any, tmp_path: Path) -> None:
    node.run("rm -f /var/cache/apt/*.bin")  # apt would make them anew
    before = node.run(SNAPSHOT).stdout
    assert "/etc/passwd" in before
    done = pyinfra(node.fleet, "deploys/preflight.py", "--data", f"report_folder={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert node.run(SNAPSHOT).stdout == before


def test_ignored_codes_warn_and_are_named(node: Any, tmp_path: Path) -> None:
    with node.broken("mig"):
        ignored = looked(node, preflight_ignore=["mig"])
        assert [(one.code, one.severity, one.ignored) for one in ignored.problems] == [("mig", "warns", True)]
        arguments = ("--data", 'preflight_ignore=["mig"]', "--data", f"report_folder={tmp_path}")
        done = pyinfra(node.fleet, "deploys/preflight.py", *arguments)
        assert done.returncode == 0, done.stderr
        assert "preflight_ignore names it" in done.stderr


PROFILES = {
    "l4": set(),
    "rtx-pro-6000": set(),
    "no-gpu": {"no-device"},
    "no-driver": {"no-driver"},
    "nouveau": {"nouveau"},
    "library-mismatch": {"driver-mismatch"},
    "closed-module": {"module-closed"},
    "mig": {"mig"},
    "disk-full": {"disk", "disk-nearly-full"},
    "ufw": {"firewall"},
    "persistence-off": {"persistence-off"},
    "clock-off": {"clock"},
}


@pytest.fixture(scope="module")
def fleet(rehearsal: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with rehearsal("pf-fleet", profiles=tuple(PROFILES)) as booted:
        yield booted


def test_a_fleet_of_broken_hosts(fleet: Any, tmp_path: Path) -> None:
    begun = time.monotonic()
    done = pyinfra(fleet.fleet, "deploys/preflight.py", "--data", f"report_folder={tmp_path}")
    assert time.monotonic() - begun < 20
    assert done.returncode == 1
    (written,) = tmp_path.glob("preflight-*.json")
    report = json.loads(written.read_text())
    severities = {entry.code: entry.severity for entry in CATALOGUE}
    blocked = 0
    for name, expected in PROFILES.items():
        (own,) = [one for node_name, one in report["hosts"].items() if node_name.startswith(name)]
        assert {one["code"] for one in own["problems"]} == expected
        assert own["ready"] is not any(severities[code] == "blocks" for code in expected)
        blocked += not own["ready"]
    ready = len(PROFILES) - blocked
    assert report["summary"] == {"hosts": len(PROFILES), "ready": ready, "blocked": blocked, "not_reached": 0}
    assert f"{len(PROFILES)} hosts: {ready} ready, {blocked} blocked" in done.stderr


def test_gpu_node_stops_a_blocked_host_before_its_first_change_and_others_go_on(fleet: Any) -> None:
    blocked, healthy = (next(n for n in fleet.names if n.startswith(p)) for p in ("mig", "l4"))
    there = "ls -d /etc/rancher /usr/local/lib/hami-k3s /etc/apt/keyrings/nvidia-container-toolkit.asc /run/hami-k3s"
    done = pyinfra(fleet.fleet, "deploys/gpu_node.py", "--limit", blocked, "--limit", healthy)
    assert done.returncode == 1
    assert "mig: card 0" in done.stderr
    on = {name: type(fleet)(fleet.state, name).run(there).stdout.split() for name in (blocked, healthy)}
    assert on[blocked] == []
    assert len(on[healthy]) == 4


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "other-scheduler",
        "namespace": "default",
        "labels": {
            "app.kubernetes.io/component": "hami-scheduler",
            "app.kubernetes.io/instance": "mine",
            "helm.sh/chart": "hami-2.5.0",
        },
    },
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "a", "image": "registry.k8s.io/pause:3.10"}]},
        },
    },
}


def test_what_a_converged_node_says(fleet: Any) -> None:
    """On the node that the test before has set up."""
    node = type(fleet)(fleet.state, next(n for n in fleet.names if n.startswith("l4")))
    assert looked(node, inside=True).problems == ()
    kubectl = "k3s kubectl"

    def shows(make: str, undo: str, stdin: str = "") -> set[str]:
        said = node.run(f"{kubectl} {make}", stdin=stdin)
        assert said.ok, said.stderr
        try:
            return codes(looked(node, inside=True))
        finally:
            assert node.run(f"{kubectl} {undo}").ok

    manifest = json.dumps(DEPLOYMENT)
    assert shows("create -f -", "delete deployment other-scheduler", manifest) == {"hami-elsewhere"}
    lock = "hami.io/mutex.lock=2026-01-01T00:00:00Z,default,pod"
    assert shows(f"annotate node {node.name} {lock}", f"annotate node {node.name} hami.io/mutex.lock-") == {
        "hami-annotations"
    }
    scheduler = "-n kube-system label deployment hami-scheduler --overwrite helm.sh/chart"
    assert shows(f"{scheduler}=hami-2.8.0", f"{scheduler}=hami-2.9.0") == {"hami-version"}
    secret = "-n kube-system label secret sh.helm.release.v1.hami.v1 --overwrite status"
    assert shows(f"{secret}=pending-upgrade", f"{secret}=deployed") == {"helm-stuck"}
    assert looked(node, inside=True).problems == ()
