"""How agents join the k3s stand-in, what they wait for in vain, and how nodes go and come back."""

import hashlib
import json
import ssl
import urllib.error
import urllib.request

import pytest

from tests.standin import standin
from tests.standin.machines import SERVER_TOKEN, Machine

pytestmark = pytest.mark.skipif(standin.missing() is not None, reason=str(standin.missing()))
GPU = {"default-runtime": "nvidia", "node-label": ["gpu=on"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Machine(tmp_path_factory.mktemp("join") / "s1", "s1", "server", card=False)
    made.join()
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def agent(server, tmp_path_factory):
    made = Machine(
        tmp_path_factory.mktemp("join") / "a1", "a1", "agent", server=server.url, token=server.token, **GPU
    )
    made.join()
    server.wait(lambda: server.ready("s1", "a1"))
    yield made
    made.destroy()


@pytest.fixture
def other(short):
    """Makes further machines, for one test."""
    made = []

    def make(name, role="agent", **settings):
        made.append(Machine(short / f"{name}-{len(made)}", name, role, **settings))
        return made[-1]

    yield make
    for machine in made:
        machine.destroy()


def fetch(url):
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(url, context=context, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_the_first_server_makes_a_token_that_names_its_ca(server):
    token = server.root / SERVER_TOKEN
    status, authority = fetch(f"{server.url}/cacerts")
    assert status == 200
    digest = hashlib.sha256(authority).hexdigest()
    assert server.token.startswith(f"K10{digest}::server:")
    assert len(server.token.rsplit(":", 1)[1]) == 32
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.with_name("node-token").is_symlink()
    assert token.with_name("node-token").read_text().strip() == server.token
    assert fetch(f"{server.url}/ping") == (200, b"pong")


def test_without_credentials_nothing_else_is_answered(server):
    for path in ("/version", "/readyz", "/api/v1/nodes", "/v1-k3s/config", "/v1-k3s/server-bootstrap"):
        assert fetch(f"{server.url}{path}")[0] == 401, path


def test_an_agent_is_a_node_of_its_own(server, agent):
    node = server.json("node", "a1")
    assert node["metadata"]["labels"]["gpu"] == "on"
    assert not [key for key in node["metadata"]["labels"] if key.startswith("node-role")]
    assert node["spec"]["podCIDR"] != server.json("node", "s1")["spec"]["podCIDR"]
    assert not agent.kubeconfig.exists()
    assert (
        'default_runtime_name = "nvidia"'
        in (agent.root / "var/lib/rancher/k3s/agent/etc/containerd/config.toml").read_text()
    )
    assert (
        "default_runtime_name"
        not in (server.root / "var/lib/rancher/k3s/agent/etc/containerd/config.toml").read_text()
    )


def test_the_kubelets_identity_sees_its_own_node_and_no_more(agent):
    config = f"--kubeconfig={agent.root}/var/lib/rancher/k3s/agent/kubelet.kubeconfig"
    text = (agent.root / "var/lib/rancher/k3s/agent/kubelet.kubeconfig").read_text()
    written = agent.root / "kubelet.kubeconfig"
    written.write_text(text.replace("/var/lib", f"{agent.root}/var/lib"))
    config = f"--kubeconfig={written}"
    assert "a1" in agent.ok("kubectl", config, "get", "node", "a1")
    for words in (
        ("get", "nodes"),
        ("get", "secrets", "-A"),
        ("delete", "node", "a1"),
        ("label", "node", "s1", "x=y"),
    ):
        refused = agent.run("kubectl", config, *words)
        assert refused.returncode, words
        assert "forbidden" in refused.stderr.lower(), words


def test_pods_run_on_the_agent_and_are_reached_through_the_server(server, agent):
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "a1"}}
    server.ok("kubectl", "apply", "-f", "-", stdin=standin.pod("far", 0, **pinned))
    server.wait(lambda: "Running" in server.run("kubectl", "get", "pod", "far").stdout)
    assert server.ok("kubectl", "exec", "far", "--", "echo", "hello") == "hello\n"
    assert server.ok("kubectl", "exec", "far", "--", "sh", "-c", "echo one\necho two") == "one\ntwo\n"
    assert server.run("kubectl", "exec", "far", "--", "sh", "-c", "exit 3").returncode == 3
    assert server.run("kubectl", "exec", "far", "-c", "none", "--", "true").returncode
    assert server.ok("kubectl", "exec", "-i", "far", "--", "cat", stdin="through\n") == "through\n"
    body = json.loads(standin.pod("said", 0, **pinned))
    body["spec"]["containers"][0]["command"] = ["echo", "words"]
    server.ok("kubectl", "apply", "-f", "-", stdin=json.dumps(body))
    server.wait(lambda: "Completed" in server.run("kubectl", "get", "pod", "said").stdout)
    assert server.ok("kubectl", "logs", "said") == "words\n"
    server.ok("kubectl", "delete", "pod", "far", "said", "--wait")
    server.wait(lambda: not list((agent.root / "var/log/pods").glob("default_*")))


def test_a_wrong_token_waits_for_ever(server, other):
    wrong = other("wrong", server=server.url, token=server.token[:-4] + "0000")
    wrong.launch()
    text = "Waiting to retrieve agent configuration; server is not ready: failed to retrieve configuration from server: "
    wrong.says(f"{text}https://127.0.0.1:{wrong.port + 1}/v1-k3s/config: 401 Unauthorized")
    assert wrong.process.poll() is None
    assert "invalid username/password combination" in server.log()
    assert server.run("kubectl", "get", "node", "wrong").returncode


def test_a_token_of_another_cluster_is_found_out_before_it_is_shown(server, other):
    foreign = other("foreign", server=server.url, token=f"K10{'0' * 64}::server:secret")
    before = server.log().count("Failed to authenticate")
    foreign.launch()
    foreign.says(
        f"Failed to validate connection to cluster at {server.url}: token CA hash does not match the Cluster CA"
    )
    assert foreign.process.poll() is None
    assert server.log().count("Failed to authenticate") == before


def test_an_unreachable_server_is_waited_for(server, other):
    lost = other("lost", server="https://127.0.0.1:9", token=server.token)
    lost.launch()
    lost.says("Failed to validate connection to cluster at https://127.0.0.1:9: failed to get CA certs: Get ")
    assert lost.process.poll() is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"server": "https://127.0.0.1:9"}, "--token is required"),
        ({"token": "secret"}, "--server is required"),
        ({"server": "https://127.0.0.1:9", "token-file": "/nowhere"}, "open /nowhere: no such file"),
    ],
)
def test_an_agent_without_server_or_token_ends(other, settings, said):
    alone = other("alone", **settings)
    alone.launch()
    assert alone.process.wait(10) == 1
    assert said in alone.log()


def test_a_default_runtime_that_is_not_there_ends_the_agent_before_it_is_up(server, other):
    poor = other("poor", card=False, server=server.url, token=server.token, **GPU)
    poor.launch(PATH="/nowhere")
    assert poor.process.wait(10) == 1
    assert "default runtime nvidia was not found" in poor.log()
    assert "up and running" not in poor.log()
    assert server.run("kubectl", "get", "node", "poor").returncode


def test_labels_of_kubernetes_own_domains_end_the_agent(server, other):
    role = {"node-label": ["node-role.kubernetes.io/worker=true"]}
    named = other("named", server=server.url, token=server.token, **role)
    named.launch()
    assert named.process.wait(10) == 1
    assert "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels" in named.log()


def test_a_rebuilt_machine_is_refused_until_its_old_node_is_deleted(server, other):
    first = other("twin", server=server.url, token=server.token)
    first.join()
    assert server.json("-n", "kube-system", "secret", "twin.node-password.k3s")
    first.kill()
    second = other("twin", server=server.url, token=server.token)
    second.launch()
    second.says(
        "Waiting to retrieve agent configuration; server is not ready: Node password rejected, duplicate hostname or "
        "contents of '/etc/rancher/node/password' may not match server node-passwd entry, try enabling a unique node "
        "name with the --with-node-id flag"
    )
    server.ok("kubectl", "delete", "node", "twin")
    assert server.run("kubectl", "-n", "kube-system", "get", "secret", "twin.node-password.k3s").returncode
    second.up()
    second.stop()
    server.ok("kubectl", "delete", "node", "twin")


def test_a_silent_node_is_not_ready_and_comes_back_with_its_pods(server, agent):
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "a1"}}
    server.ok("kubectl", "apply", "-f", "-", stdin=standin.pod("kept", 0, **pinned))
    server.wait(lambda: "1/1" in server.run("kubectl", "get", "pod", "kept").stdout)
    held = server.json("pod", "kept")["status"]["containerStatuses"][0]
    agent.kill()
    server.wait(lambda: server.ready("s1"), 40)
    node = server.json("node", "a1")
    assert {t["key"] for t in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
    assert "0/1" not in server.ok("kubectl", "get", "nodes")
    server.wait(lambda: "True" not in ready_of(server, "kept"))
    refused = server.run("kubectl", "exec", "kept", "--", "true")
    assert "502 Bad Gateway" in refused.stderr
    agent.settings["node-label"] = ["gpu=on", "zone=b"]
    agent.settings["write-kubeconfig-mode"] = "644"
    agent.write_settings()
    agent.join()
    assert "Unknown flag --write-kubeconfig-mode found in config.yaml, skipping" in agent.log()
    server.wait(lambda: server.ready("s1", "a1"))
    assert server.json("node", "a1")["metadata"]["labels"]["zone"] == "b"
    server.wait(lambda: "True" in ready_of(server, "kept"))
    again = server.json("pod", "kept")["status"]["containerStatuses"][0]
    assert (again["containerID"], again["restartCount"]) == (held["containerID"], 0)
    server.ok("kubectl", "delete", "pod", "kept", "--wait")


def ready_of(server, name):
    return [c["status"] for c in server.json("pod", name)["status"]["conditions"] if c["type"] == "Ready"]


def test_a_second_server_cannot_join_one_without_etcd(server, other):
    second = other("second", "server", server=server.url, token=server.token)
    second.launch()
    assert second.process.wait(15) == 1
    assert "failed to bootstrap cluster data: " in second.log()
    assert "/v1-k3s/server-bootstrap: 400 Bad Request" in second.log()
    assert "embedded etcd is not enabled" in server.log()


def test_a_token_of_the_agents_own_lets_no_server_in_and_the_servers_no_agent(other):
    first = other("first", "server", card=False, **{"token": "for-servers", "agent-token": "for-agents"})
    first.join()
    assert first.token.endswith("::server:for-servers")
    agents = (first.root / SERVER_TOKEN).with_name("node-token").read_text().strip()
    assert agents.endswith("::node:for-agents")
    good, bad = (
        other("good", server=first.url, token=agents),
        other("bad", server=first.url, token=first.token),
    )
    good.join()
    bad.launch()
    bad.says("/v1-k3s/config: 401 Unauthorized")
    first.stop()
    first.settings["token"] = "another"
    first.write_settings()
    first.launch()
    assert first.process.wait(15) == 1
    assert "bootstrap data already found and encrypted with different token" in first.log()
