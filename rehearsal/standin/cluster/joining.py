"""A further server: the cluster's authorities first, then its place among the members."""

import asyncio
import json
from typing import Any

from . import critical, log, paths, pki, tokens
from .join import JoinError, Server, check_url
from .raft import Raft
from .tokens import BadTokenError

Settings = dict[str, Any]
FAILED = "preparing server: failed to bootstrap cluster data"
UNCHECKED = f"{FAILED}: failed to check if bootstrap data has been initialized"


class FatalError(Exception):
    """What the process ends with; systemd starts it again."""


def token_of(settings: Settings) -> str:
    given = settings.get("token") or ""
    if settings.get("token-file"):
        try:
            given = paths.on_node(settings["token-file"]).read_text().strip()
        except OSError as missing:
            raise FatalError(
                f"open {settings['token-file']}: {(missing.strerror or '').lower()}"
            ) from missing
    return given


def agent_token_of(settings: Settings) -> str:
    if settings.get("agent-token-file"):
        return paths.on_node(settings["agent-token-file"]).read_text().strip()
    return settings.get("agent-token") or ""


def initialized() -> bool:
    """Has this server an etcd of its own already? Then flags that choose the datastore mean nothing."""
    return paths.on_node(f"{paths.ETCD}/name").exists()


def bootstrap(settings: Settings, text: str) -> Server:
    """Fetches what only the cluster has; refused like a real one refuses."""
    if not text:
        raise FatalError(f"{UNCHECKED}: K3S_TOKEN is required to join a cluster")
    try:
        url = check_url(settings["server"])
        token = tokens.parse(text)
        server = Server(url, "server", token.password)
        server.trust(token)
    except (JoinError, BadTokenError) as refused:
        raise FatalError(f"{UNCHECKED}: failed to validate token: {refused}") from refused
    log.info("Managed etcd cluster not yet initialized")
    try:
        given = json.loads(server.get("/v1-k3s/server-bootstrap"))
    except JoinError as refused:
        raise FatalError(f"{FAILED}: {refused}") from refused
    if critical.differences(critical.of(settings), given["critical"]):
        raise FatalError(f"{FAILED}: {critical.MISMATCH}")
    pki.adopt(given["files"])
    settings["agent-token"] = given["agent"] if given["agent"] != token.password else ""
    return server


async def become_member(raft: Raft, server: Server) -> None:
    """Asks until it may; another server may be joining just now."""
    server.certificate = f"{paths.TLS}/client-kube-apiserver"
    asked = {"name": raft.name, "address": raft.address}
    while True:
        try:
            content = await asyncio.to_thread(server.get, "/rehearsal/join", False, None, asked)
        except JoinError as lost:
            raise FatalError(f"preparing server: failed to start cluster: {lost}") from lost
        answer = json.loads(content)
        if "fatal" in answer:
            raise FatalError(
                f"preparing server: failed to start cluster: start managed database: {answer['fatal']}"
            )
        if "members" in answer:
            members = answer["members"]
            log.info(f"Adding member {raft.name}={raft.address} to etcd cluster {sorted(members)}")
            raft.hints = members
            write_name(raft.name)
            return
        log.info(f"Waiting for other members to finish joining etcd cluster: {answer['error']}")
        await asyncio.sleep(5)


def write_name(name: str) -> None:
    pki.write_private(paths.on_node(f"{paths.ETCD}/name"), name.encode())
