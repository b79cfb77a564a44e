"""Join tokens: `K10<sha256 of the CA>::<user>:<password>`, or the password alone."""

import hashlib
import re
import secrets
from dataclasses import dataclass

from . import paths, pki
from .words import words

NOT_NORMAL = (
    "failed to normalize server token; must be in format K10<CA-HASH>::<USERNAME>:<PASSWORD> or <PASSWORD>"
)
BOOTSTRAP = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
LINKS = words("node-token agent-token")


class BadTokenError(Exception):
    pass


@dataclass(frozen=True)
class Token:
    password: str
    user: str = ""
    digest: str = ""  # of the CA; empty in the short form
    bootstrap: bool = False  # `abcdef.0123456789abcdef`, made by `k3s token create`


def parse(text: str) -> Token:
    if not text:
        raise BadTokenError("token must not be empty")
    digest, credentials = "", text
    if text.startswith("K10"):
        digest, separator, credentials = text[3:].partition("::")
        if not separator:
            digest, credentials = "", digest
        if digest and len(digest) != 64:
            raise BadTokenError("invalid token CA hash length")
        if BOOTSTRAP.fullmatch(credentials):
            return Token(credentials, "", digest, True)
        user, separator, password = credentials.partition(":")
        if not separator or not password:
            raise BadTokenError("invalid token format")
        return Token(password, user, digest)
    return Token(text, "", "", bool(BOOTSTRAP.fullmatch(text)))


def server_password(text: str) -> str:
    """What a server takes as its password; other forms end it."""
    try:
        token = parse(text)
    except BadTokenError as broken:
        raise BadTokenError(NOT_NORMAL) from broken
    if token.bootstrap:
        raise BadTokenError(NOT_NORMAL)
    return token.password


def ca_digest(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


def full(certificate: bytes, user: str, password: str) -> str:
    return f"K10{ca_digest(certificate)}::{user}:{password}"


@dataclass(frozen=True)
class Passwords:
    """What this server lets in."""

    server: str
    agent: str

    def role(self, user: str, password: str) -> str | None:
        if user == "server" and secrets.compare_digest(password.encode(), self.server.encode()):
            return "server"
        if user == "node" and secrets.compare_digest(password.encode(), self.agent.encode()):
            return "agent"
        return None


def kept() -> str:
    """The password of the server's own token file; empty before the first start."""
    try:
        return server_password(paths.on_node(paths.TOKEN).read_text().strip())
    except (OSError, BadTokenError):
        return ""


def write(given: str | None, agent: str | None) -> Passwords:
    """server/token and its two names. A token other than the one the datastore was begun with ends the server."""
    target = paths.on_node(paths.TOKEN)
    certificate = paths.on_node(f"{paths.TLS}/server-ca.crt").read_bytes()
    password = server_password(given) if given else ""
    old = kept()
    if old and password and old != password:
        text = "failed to bootstrap cluster data: failed to reconcile with local datastore: "
        raise BadTokenError(f"{text}bootstrap data already found and encrypted with different token")
    password = password or old or secrets.token_hex(16)
    pki.write_private(target, f"{full(certificate, 'server', password)}\n".encode())
    for name in LINKS:
        link = target.with_name(name)
        if agent and name == "agent-token":
            link.unlink(missing_ok=True)
            pki.write_private(link, f"{full(certificate, 'node', server_password(agent))}\n".encode())
            continue
        goal = target.with_name("agent-token") if agent else target
        if not link.is_symlink() or link.readlink() != goal:
            link.unlink(missing_ok=True)
            link.symlink_to(goal)
    return Passwords(password, server_password(agent) if agent else password)
