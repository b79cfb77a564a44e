"""How a host gets into its cluster: the token, read from a server at that moment, and that server's address."""

from __future__ import annotations

import binascii
import hashlib
import re
import shlex
from base64 import b64decode
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster
from hami_k3s.difference import Difference, noted
from hami_k3s.facts.k3s import CLUSTER_FILE, SERVER_TOKEN, TOKEN_FILE, K3sState
from hami_k3s.facts.kubernetes import KUBECTL
from hami_k3s.operations import files
from hami_k3s.operations.k3s import state_of
from hami_k3s.remote import run
from hami_k3s.templating import render
from hami_k3s.waits import Look, complain, fail, until

STALE_S = 60  # a node is NotReady 40 s after its last word
FULL = re.compile(r"K10([0-9a-f]{64})::\w+:\S+")


def address(state: K3sState) -> str | None:
    """The address in CLUSTER_FILE with which this host joined, None for a founder or a host that has not joined."""
    found = re.search(r"^server: https://(\S+):\d+$", state.cluster_file or "", re.MULTILINE)
    return found.group(1).strip("[]") if found else None


def joined(state: K3sState) -> bool:
    """Has this host joined, with the token that its servers have and one of them as its address?

    What the API does not say is taken as right: a cluster that is silent for a moment changes nothing here.
    """
    mine = address(state)
    if mine is None or state.token is None:
        return False
    return (not state.servers or mine in state.servers) and state.server_token in (None, state.token)


@operation()
def together(step: str) -> Generator[PyinfraCommand]:
    """
    Every host waits here for the others, and an agent stops here when no server of its cluster answers.

    + step: what has been done when all are here

    **Example:**

    .. code:: python

        join.together(name="Servers are ready", step="the servers are ready")
    """
    if cluster.is_agent(host) and cluster.executing(host) and cluster.api(host) is None:
        reason = (
            f"nothing was done here: no server of cluster {cluster.name(host)} can be used: {cluster.silence(host)}. "
            "Run the same command again for them and this host"
        )
        yield FunctionCommand(fail, (reason,), {})
        return
    host.noop(step)


@operation()
def agent(limit: int) -> Generator[PyinfraCommand]:
    """
    The token and the address of a server that answers, for k3s-agent. The server's CA is checked against the token's hash
    from this host before anything is written; a node of this name that is gone is removed first.

    + limit: seconds until the server must have answered this host

    **Example:**

    .. code:: python

        join.agent(name="Joined", limit=300)
    """
    state = state_of(host)
    row = Difference("cluster", cluster.name(host) or "", address(state) or "not joined", "joined")
    if not noted(host, [] if joined(state) else [row]):
        host.noop("joined")
        return
    yield FunctionCommand(enter, (limit,), {})


def enter(state: State, host: Host, limit: int) -> bool:
    """Write what k3s joins with. False, with the reason, when no server can be used or the name is taken."""
    server = cluster.api(host)
    if server is None:
        return fail(state, host, f"no server to join: {cluster.silence(host)}")
    now = state_of(host, fresh=True)
    return join(state, host, server, now, limit)


def join(state: State, host: Host, server: Host, now: K3sState, limit: int) -> bool:
    """Write what k3s joins `server` with; `now` is this host's state."""
    token = run(server, f"cat {SERVER_TOKEN}").stdout.strip()
    digest = FULL.fullmatch(token)
    if digest is None:
        return fail(state, host, f"{SERVER_TOKEN} on {server.name} holds no full token (K10...)")
    where = str(server.data.get("k3s_node_ip") or "") or _address_of(server)
    if not where:
        return fail(state, host, f"the address of {server.name} is not known: set k3s_node_ip for it")
    url = f"https://{f'[{where}]' if ':' in where else where}:6443"
    if not _answers(host, url, digest.group(1), server, limit):
        return False
    if not now.password and not _name_is_free(host, server, now.hostname or "", limit):
        return False
    text = render("51-cluster.yaml", server=url, token_file=TOKEN_FILE)
    return files.write(state, host, {TOKEN_FILE: (f"{token}\n", "600"), CLUSTER_FILE: (text, "600")})


def _address_of(server: Host) -> str:
    """The address by which the server is a node."""
    path = '{.status.addresses[?(@.type=="InternalIP")].address}'
    seen = run(server, f'{KUBECTL} get node "$(hostname | tr A-Z a-z)" -o jsonpath={shlex.quote(path)}')
    return (seen.stdout.split() or [""])[0]


def _answers(host: Host, url: str, digest: str, server: Host, limit: int) -> bool:
    """Wait until the server shows this host the CA whose hash is in the token. A wrong one ends the wait at once."""

    def look() -> Look:
        got = run(
            host, f"curl -sk --max-time 5 {shlex.quote(url)}/cacerts | base64 | tr -d '\\n'", timeout=15
        )
        if got.lost:
            return Look("failed", got.lost)
        found = hashlib.sha256(_decoded(got.stdout)).hexdigest() if got.stdout.strip() else ""
        if found == digest:
            return Look("done", f"{url} answers")
        if found:
            return Look(
                "failed",
                f"{url}/cacerts shows another CA than the one of {server.name}: nothing was sent to it",
            )
        return Look("wait", f"{url} does not answer this host")

    def advice() -> str:
        return (
            f"the host must reach {url} (a firewall, a route?); if {server.name} has another address for its nodes, set "
            "k3s_node_ip for it"
        )

    return until(host, "server", limit, look, "k3s_ready_timeout", advice)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text)
    except binascii.Error:
        return b""


def _name_is_free(host: Host, server: Host, node: str, limit: int) -> bool:
    """This machine has never been a node. Remove a node of its name that is gone; refuse one that lives."""
    name = shlex.quote(node)
    ready = '{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}'

    def look() -> Look:
        seen = run(server, f"{KUBECTL} get node {name} --ignore-not-found -o jsonpath={shlex.quote(ready)}")
        if not seen.ok:
            return Look("wait", f"the API of {server.name} does not answer")
        if not seen.stdout.strip():
            return Look("done", "no node of this name")
        if seen.stdout.split()[-1] == "True":
            return Look("wait", f"a node named {node} is in the cluster and Ready")
        return Look("done", f"an old node named {node} is NotReady")

    def advice() -> str:
        return (
            f"another machine is the node {node}: give this one a name of its own (hostnamectl set-hostname), "
            f"or if it is to take that one's place, `kubectl delete node {node}` on {server.name} first"
        )

    if not until(host, "node name", min(limit, STALE_S), look, "k3s_ready_timeout", advice):
        return False
    # Whoever had the name is gone: its secret would refuse this machine.
    gone = run(
        server,
        f"{KUBECTL} delete node {name} --ignore-not-found && "
        f"{KUBECTL} -n kube-system delete secret {shlex.quote(f'{node}.node-password.k3s')} --ignore-not-found",
    )
    if not gone.ok:
        complain(host, f"the old node {node} could not be removed on {server.name}: {gone.stderr}")
    elif gone.stdout.strip():
        host.log(
            f"    removed what an earlier machine of this name left in the cluster: {', '.join(gone.stdout.splitlines())}"
        )
    return gone.ok
