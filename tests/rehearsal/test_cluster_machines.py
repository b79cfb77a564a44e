"""A cluster of machines put together by hand: three servers without cards, two agents with different ones."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rehearsal import cleanup, host, lifecycle
from tests.rehearsal.by_hand import HELM, TOOLKIT, Hand

pytestmark = pytest.mark.skipif(
    "REHEARSAL_HA" not in os.environ, reason="elections mind a busy machine: run with REHEARSAL_HA=1"
)
FLEET = """
hosts: [{name: solo, card: h200, cards: 2}]
clusters:
  - name: edge
    servers: [{name: s1}, {name: s2}, {name: s3}]
    agents: [{name: a1, card: rtx-pro-6000}, {name: a2, card: l4}]
"""
GPU = {"default-runtime": "nvidia", "node-label": ["gpu=on"]}
EVERYBODY = {"s1", "s2", "s3", "a1", "a2"}
NODES = '{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Hand]]:
    if os.geteuid() != 0:
        pytest.skip("needs root: systemd-nspawn boots the nodes")
    host.require()
    file = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    file.write_text(FLEET)
    state = lifecycle.up(f"t{os.getpid()}-join", fleet=file)
    try:
        yield {one["name"]: Hand(state, one["name"]) for one in state.read()["nodes"]}
    finally:
        left = cleanup.down(state)
        assert not left, left


@pytest.fixture(scope="module")
def cluster(hands: dict[str, Hand]) -> dict[str, Hand]:
    first = hands["s1"]
    first.install("server", **{"cluster-init": True})
    first.start()
    for name in ("s2", "s3"):
        hands[name].join(first, "server")
    for name in ("a1", "a2"):
        hands[name].ok(TOOLKIT)
        hands[name].join(first, **GPU)
    wait_for(first, EVERYBODY, 30)
    first.ok(f"{HELM} --set scheduler.replicas=3")
    first.wait(
        "k3s kubectl -n kube-system get endpoints hami-scheduler -o yaml | grep -q hami-scheduler-", 40
    )
    return hands


def ready(machine: Hand) -> set[str]:
    lines = machine.run(
        f"k3s kubectl get nodes --request-timeout=15s -o jsonpath='{NODES}'"
    ).stdout.splitlines()
    return {line.split()[0] for line in lines if line.endswith(" True")}


def wait_for(machine: Hand, names: set[str], seconds: float) -> None:
    end = time.monotonic() + seconds
    while (seen := ready(machine)) != names:
        assert time.monotonic() < end, f"{seen} are Ready, not {names}"
        time.sleep(1)


def gpu_pod(machine: Hand, name: str, node: str, memory: int = 8000) -> None:
    container = {
        "name": "main",
        "image": "docker.io/library/python:3.12-slim",
        "command": ["sleep", "infinity"],
        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory}},
    }
    spec = {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 0,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    # A request that waits for an election may be answered that it timed out.
    machine.wait(f"k3s kubectl apply -f - <<'END'\n{json.dumps(pod)}\nEND", 60)
    machine.wait(f"k3s kubectl get pod {name} | grep -q Running", 60)


def test_the_fleet_file_has_the_same_shape_with_hosts_in_it(hands: dict[str, Hand]) -> None:
    written = yaml.safe_load(hands["s1"].state.fleet.read_text())
    assert [one["name"] for one in written["hosts"]] == ["solo"]
    (edge,) = written["clusters"]
    assert [one["name"] for one in edge["servers"]] == ["s1", "s2", "s3"]
    assert [one["name"] for one in edge["agents"]] == ["a1", "a2"]
    for one in [*written["hosts"], *edge["servers"], *edge["agents"]]:
        assert one["k3s_node_ip"] == hands[one["name"]].address
        assert Path(one["ssh_key"]).exists()
    assert written["settings"]["k3s_release_url"].startswith("https://mirror.rehearsal/")


def test_nodes_have_their_own_cards_and_reach_each_other(hands: dict[str, Hand]) -> None:
    assert hands["s1"].run("command -v nvidia-smi").returncode
    assert "L4" in hands["a2"].ok("nvidia-smi -L")
    assert hands["solo"].ok("nvidia-smi -L").count("H200") == 2
    assert hands["a1"].address in hands["s2"].ok("getent hosts a1")


def test_each_agent_gives_its_own_card_to_pods(cluster: dict[str, Hand]) -> None:
    for server, agent, card in (("s1", "a1", "RTX PRO 6000"), ("s3", "a2", "L4")):
        gpu_pod(cluster[server], f"on-{agent}", agent)
        seen = cluster[server].kubectl(f"exec on-{agent} -- nvidia-smi")
        assert card in seen
        assert "8000MiB" in seen.replace(" ", "")
    assert cluster["a1"].run("k3s kubectl get nodes").returncode  # no kubeconfig there
    own = "k3s kubectl --kubeconfig /var/lib/rancher/k3s/agent/kubelet.kubeconfig get node a1"
    assert "Ready" in cluster["a1"].ok(own)


def test_a_wrong_token_holds_systemctl_start_for_ever(cluster: dict[str, Hand]) -> None:
    solo = cluster["solo"]
    solo.token(cluster["s1"].ok("cat /var/lib/rancher/k3s/server/token").strip()[:-4] + "0000")
    url = f"https://{cluster['s1'].address}:6443"
    solo.install("agent", server=url, **{"token-file": "/etc/rancher/k3s/token"})
    solo.ok("systemctl start --no-block k3s-agent")
    solo.wait("journalctl -u k3s-agent | grep -q '/v1-k3s/config: 401 Unauthorized'", 20)
    assert "activating" in solo.run("systemctl is-active k3s-agent").stdout
    solo.ok("systemctl stop k3s-agent; systemctl disable -q k3s-agent")


def test_a_slow_node_answers_late(cluster: dict[str, Hand]) -> None:
    solo = cluster["solo"]
    solo.ok("true")
    solo.fault(add=("slow-node=0.2",))
    begun = time.monotonic()
    solo.ok("true")
    late = time.monotonic() - begun
    solo.fault(clear=("slow-node",))
    assert late > 0.6  # an SSH session is several answers


def test_a_server_and_an_agent_cut_off_cost_no_more_than_themselves(cluster: dict[str, Hand]) -> None:
    cluster["s1"].fault(add=("cut",))
    cluster["a2"].fault(add=("cut",))
    for name in ("s1", "a2"):
        with pytest.raises(AssertionError), contextlib.suppress(TimeoutError):
            cluster[name].ok("true")
    gpu_pod(cluster["s2"], "meanwhile", "a1", 4000)
    wait_for(cluster["s3"], {"s2", "s3", "a1"}, 90)
    assert "502 Bad Gateway" in cluster["s3"].run("k3s kubectl exec on-a2 -- true").stderr
    for name in ("s1", "a2"):
        cluster[name].fault(clear=("cut",))
    wait_for(cluster["s1"], EVERYBODY, 60)
    assert cluster["s1"].kubectl("exec on-a2 -- echo here") == "here\n"
    assert cluster["s1"].json("pod on-a2")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_killed_server_is_started_again_and_two_are_not_enough_to_lose(cluster: dict[str, Hand]) -> None:
    cluster["s2"].ok("systemctl kill -s KILL k3s")
    cluster["s2"].wait("k3s kubectl get --raw /readyz", 60)  # Restart=always
    cluster["s1"].ok("systemctl stop k3s")
    gpu_pod(cluster["s3"], "still", "a2", 1000)
    cluster["s2"].ok("systemctl stop k3s")
    cluster["s3"].wait("! k3s kubectl get --raw /readyz", 30)
    assert cluster["s3"].run("k3s kubectl get nodes --request-timeout=15s").returncode
    cluster["s2"].ok("systemctl start k3s", 60)
    cluster["s1"].ok("systemctl start k3s", 60)
    wait_for(cluster["s1"], EVERYBODY, 90)
