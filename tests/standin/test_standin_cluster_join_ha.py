"""Three servers with one state: how they join, what one of them may be missing for, and what two may not."""

import json
import os

import pytest

from tests.standin import standin
from tests.standin.machines import Machine

pytestmark = [
    pytest.mark.skipif(standin.missing() is not None, reason=str(standin.missing())),
    pytest.mark.skipif(
        "REHEARSAL_HA" not in os.environ, reason="elections mind a busy machine: run with REHEARSAL_HA=1"
    ),
]
GPU = {"default-runtime": "nvidia", "node-label": ["gpu=on"]}
EVERYBODY = ("s1", "s2", "s3", "a1", "a2")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """s1 to s3 without cards, a1 and a2 with one each, and HAMi with a scheduler on three nodes."""
    folder = tmp_path_factory.mktemp("ha")
    made = {"s1": Machine(folder / "s1", "s1", "server", card=False, **{"cluster-init": True})}
    try:
        first = made["s1"]
        first.join()
        join = {"server": first.url, "token": first.token}
        for name in ("s2", "s3"):
            made[name] = Machine(folder / name, name, "server", card=False, **join)
            made[name].join()
        for name in ("a1", "a2"):
            made[name] = Machine(folder / name, name, "agent", **join, **GPU)
            made[name].join()
        first.wait(lambda: first.ready(*EVERYBODY))
        first.install("2.9.0", "--set", "scheduler.replicas=3")
        first.wait(first.endpoints, 30)
        yield made
    finally:
        for machine in made.values():
            machine.destroy()


@pytest.fixture
def joiner(cluster, short):
    """A server that is about to join, with settings of its own."""
    made = []

    def make(name, **settings):
        first = cluster["s1"]
        base = {"server": first.url, "token": first.token}
        made.append(Machine(short / name, name, "server", card=False, **{**base, **settings}))
        return made[-1]

    yield make
    for machine in made:
        machine.destroy()


def seen(machine):
    found = machine.run("kubectl", "get", "configmaps", "-o", "json")
    names = json.loads(found.stdout)["items"] if found.returncode == 0 else []
    return {m["metadata"]["name"] for m in names}


def note(machine, name):
    """An election takes 5 to 10 s, and a request that waits for it may be answered that it timed out."""
    words = ("kubectl", "create", "configmap", name, "--request-timeout=20s")
    machine.wait(lambda: machine.run(*words).returncode == 0 or name in seen(machine), 40)


def test_every_server_answers_for_the_same_state(cluster):
    note(cluster["s1"], "from-s1")
    note(cluster["s2"], "from-s2")
    note(cluster["s3"], "from-s3")
    for name in ("s1", "s2", "s3"):
        assert {"from-s1", "from-s2", "from-s3"} <= seen(cluster[name])
    assert len({cluster[name].token for name in ("s1", "s2", "s3")}) == 1
    roles = cluster["s2"].json("node", "s3")["metadata"]["labels"]
    assert {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd"} <= set(roles)


def test_hami_registers_the_cards_of_each_agent_and_names_the_nodes(cluster):
    second = cluster["s2"]
    nodes = {n["metadata"]["name"]: n for n in second.json("nodes")["items"]}
    cards = {
        n: o["metadata"]["annotations"].get("hami.io/node-nvidia-register", "") for n, o in nodes.items()
    }
    assert cards["a1"] != cards["a2"]
    assert all("GPU-" in cards[n] for n in ("a1", "a2"))
    assert not any(cards[n] for n in ("s1", "s2", "s3"))
    assert nodes["a1"]["status"]["allocatable"]["nvidia.com/gpu"] == "10"
    assert "nvidia.com/gpu" not in nodes["s1"]["status"]["allocatable"]
    second.ok("kubectl", "apply", "-f", "-", stdin=standin.pod("too-much", 999999))
    wanted = ("hami-scheduler", "FilteringFailed", "2 nodes CardInsufficientMemory(a1,a2)")
    second.wait(lambda: wanted in second.events("too-much"))
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "a2"}}
    second.ok("kubectl", "apply", "-f", "-", stdin=standin.pod("pinned", 8000, **pinned))
    second.wait(lambda: "Running" in second.run("kubectl", "get", "pod", "pinned").stdout)
    assert second.json("pod", "pinned")["spec"]["nodeName"] == "a2"
    assert (
        cluster["s3"].ok("kubectl", "exec", "pinned", "--", "cat", "/run/rehearsal/visible").strip()
        in cards["a2"]
    )
    second.ok("kubectl", "delete", "pod", "too-much", "pinned", "--wait")


def test_one_of_three_schedulers_leads(cluster):
    pods = cluster["s1"].json(
        "-n", "kube-system", "pods", "-l", "app.kubernetes.io/component=hami-scheduler"
    )["items"]
    leaders = [p["metadata"]["name"] for p in pods if p["metadata"]["labels"].get("hami.io/scheduler-role")]
    assert len(pods) == len({p["spec"]["nodeName"] for p in pods}) == 3
    assert len(leaders) == 1
    lease = cluster["s1"].json("-n", "kube-system", "lease", "hami-scheduler")
    assert lease["spec"]["holderIdentity"] == leaders[0]
    endpoints = cluster["s1"].json("-n", "kube-system", "endpoints", "hami-scheduler")["subsets"]
    assert [a["targetRef"]["name"] for s in endpoints for a in s["addresses"]] == leaders


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"token": ""}, "K3S_TOKEN is required to join a cluster"),
        ({"token": f"K10{'1' * 64}::server:x"}, "failed to validate token: token CA hash does not match"),
        ({"token": "wrong"}, "/v1-k3s/server-bootstrap: 401 Unauthorized"),
        ({"server": "https://127.0.0.1:9"}, "failed to get CA certs: Get "),
        ({"server": "http://127.0.0.1:9"}, "only https:// URLs are supported, invalid scheme"),
        ({"cluster-cidr": "10.99.0.0/16"}, "critical configuration mismatched: cluster-cidr"),
        ({"disable": ["servicelb"]}, "critical configuration value mismatch between servers"),
        ({"node-name": "s2"}, "duplicate node name found, please use a unique name for this node"),
    ],
)
def test_who_may_not_join_ends_with_the_reason(cluster, joiner, settings, said):
    machine = joiner("s4", **settings)
    machine.launch()
    assert machine.process.wait(15) == 1
    assert said in machine.log()
    assert cluster["s1"].run("kubectl", "get", "node", "s4").returncode


def test_a_server_that_goes_leaves_the_others_working_two_leave_none(cluster):
    first, second, third = (cluster[name] for name in ("s1", "s2", "s3"))
    first.kill()
    note(second, "without-s1")
    assert "without-s1" in seen(third)
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "a1"}}
    third.ok("kubectl", "apply", "-f", "-", stdin=standin.pod("anyway", 0, **pinned))
    third.wait(lambda: "Running" in third.run("kubectl", "get", "pod", "anyway").stdout, 40)
    third.wait(lambda: third.ready("s2", "s3", "a1", "a2"), 40)
    second.kill()
    third.wait(lambda: "etcd failed" in third.run("kubectl", "get", "--raw", "/readyz").stderr, 15)
    assert third.run("kubectl", "get", "nodes", "--request-timeout=15s").returncode
    assert third.run("kubectl", "create", "configmap", "nobody", "--request-timeout=15s").returncode
    alone = third.log()
    second.launch()
    second.up(30)
    second.wait(lambda: second.run("kubectl", "get", "nodes").returncode == 0, 20)
    assert "without-s1" in seen(second)
    assert "nobody" not in seen(second)
    assert "Shutdown" not in alone
    first.join()
    first.wait(lambda: first.ready(*EVERYBODY), 40)
    assert "without-s1" in seen(first)
    assert first.ok("kubectl", "exec", "anyway", "--", "echo", "here") == "here\n"
    first.ok("kubectl", "delete", "pod", "anyway", "--wait")


def test_a_server_that_is_stopped_hands_over_at_once(cluster):
    for name in ("s1", "s2", "s3"):
        machine, other = cluster[name], cluster["s2" if name == "s1" else "s1"]
        machine.stop()
        note(other, f"while-{name}-is-away")
        machine.join()
        machine.wait(lambda machine=machine: machine.ready(*EVERYBODY), 30)


def test_a_deleted_server_is_no_member_and_its_name_is_free(cluster, joiner):
    fourth = joiner("s4")
    fourth.join()
    cluster["s2"].wait(lambda: cluster["s2"].ready(*EVERYBODY, "s4"))
    fourth.kill()
    cluster["s2"].ok("kubectl", "delete", "node", "s4")
    fourth.launch()
    assert fourth.process.wait(20) == 1
    assert "this server is a not a member of the etcd cluster" in fourth.log()
    assert cluster["s2"].ready(*EVERYBODY)
