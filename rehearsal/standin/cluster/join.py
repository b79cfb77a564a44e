"""The first words between a joining machine and a server, with the errors as k3s words them."""

import base64
import http.client
import json
import socket
import ssl
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

from . import log, paths, tokens

SECONDS = 10.0
NO_HASH = (
    "Cluster CA certificate is not trusted by the host CA bundle, but the token does not include a CA hash. "
    "Use the full token from the server's node-token file to enable Cluster CA validation."
)


class JoinError(Exception):
    """What a join fails with, this time."""


class RefusedError(JoinError):
    """The server answered with that status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Server:
    """One server as seen by who joins: its URL, its CA once that is checked, the credentials."""

    url: str
    user: str = ""
    password: str = ""
    authority: bytes = b""
    certificate: str = ""  # path without suffix, of a client certificate
    headers: dict[str, str] = field(default_factory=dict)

    def get(
        self, path: str, insecure: bool = False, headers: dict[str, str] | None = None, body: Any = None
    ) -> bytes:
        full = self.url + path
        parts = urllib.parse.urlsplit(full)
        context = ssl._create_unverified_context() if insecure else self._context()
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 443, timeout=SECONDS, context=context
        )
        sent = dict(headers or {})
        if self.user and not insecure:
            sent["Authorization"] = (
                "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            )
        verb = "Get" if body is None else "Post"
        try:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, body=data, headers=sent)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as broken:
            raise JoinError(f'{verb} "{full}": {_words(broken, parts, connection)}') from broken
        finally:
            connection.close()
        if answer.status == 403 and "k3s-Node-Name" in sent:
            raise RefusedError(403, content.decode(errors="replace"))
        if not 200 <= answer.status <= 299:
            raise RefusedError(answer.status, f"{full}: {answer.status} {answer.reason}")
        return content

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.decode()) if self.authority else None
        if context is None:
            return ssl.create_default_context()
        if self.certificate and paths.on_node(f"{self.certificate}.crt").exists():
            context.load_cert_chain(
                paths.on_node(f"{self.certificate}.crt"), paths.on_node(f"{self.certificate}.key")
            )
        return context

    def trust(self, token: tokens.Token) -> None:
        """The CA as the server shows it, held against the hash in the token."""
        try:
            authority = self.get("/cacerts", insecure=True)
        except JoinError as failed:
            raise JoinError(f"failed to get CA certs: {failed}") from failed
        try:
            Server(self.url, authority=authority).get("/cacerts")
        except (JoinError, ssl.SSLError) as failed:
            raise JoinError(f"CA cert validation failed: {failed}") from failed
        found = tokens.ca_digest(authority)
        if not token.digest:
            log.warning(NO_HASH)
        elif token.digest != found:
            raise JoinError(
                f"token CA hash does not match the Cluster CA certificate hash: {token.digest} != {found}"
            )
        self.authority = authority


def _words(
    broken: Exception, parts: urllib.parse.SplitResult, connection: http.client.HTTPSConnection
) -> str:
    place = f"{parts.hostname}:{parts.port or 443}"
    if isinstance(broken, socket.gaierror):
        return f"dial tcp: lookup {parts.hostname}: no such host"
    if isinstance(broken, TimeoutError):
        if connection.sock is None:
            return f"dial tcp {place}: i/o timeout"
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    if isinstance(broken, ConnectionRefusedError):
        return f"dial tcp {place}: connect: connection refused"
    if isinstance(broken, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {broken.verify_message}"
    if isinstance(broken, ConnectionResetError):
        return f"read tcp {place}: read: connection reset by peer"
    if isinstance(broken, ssl.SSLEOFError | http.client.RemoteDisconnected):
        return "EOF"
    text = getattr(broken, "strerror", None) or str(broken)
    return f"dial tcp {place}: connect: {text.lower()}"


def check_url(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https":
        raise JoinError(f"only https:// URLs are supported, invalid scheme: {url}")
    return url.rstrip("/")
