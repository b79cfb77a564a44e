"""Further certificate authorities in the host's trust store: apt, curl, helm, k3s and containerd all read it."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import trusted as readings
from hami_k3s.difference import NOT_THERE, Difference, noted
from hami_k3s.facts.files import Digests
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.operations.files import script
from hami_k3s.remote import run
from hami_k3s.waits import complain

FILE = "/usr/local/share/ca-certificates/hami-k3s.crt"
DONE = f"{LIBRARY}/private-ca.applied"


@operation()
def trusted(pem: str, prelude: str = "") -> Generator[PyinfraCommand]:
    """
    The host trusts these authorities too. Removing the setting leaves them: reset.py with `reset_toolkit` takes them away.

    + pem: certificates
    + prelude: shell lines with the proxies, for a host without the package ca-certificates

    **Example:**

    .. code:: python

        authority.trusted(name="Private CA", pem=Path("ca.pem").read_text())
    """
    found = readings.read(host, Digests, paths=[FILE, DONE])
    if not noted(host, differences(found, pem)):
        host.noop("the private CA is trusted")
        return
    yield FunctionCommand(_trust, (pem, _done(pem), prelude), {})


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _done(pem: str) -> str:
    return f"{_sum(pem)}\n"


def differences(found: Mapping[str, tuple[str, str]], pem: str) -> list[Difference]:
    """From the digests of FILE and DONE."""
    return [
        Difference("file", path, "other certificates" if path in found else NOT_THERE, "private_ca, trusted")
        for path, text in ((FILE, pem), (DONE, _done(pem)))
        if found.get(path, ("",))[0] != _sum(text)
    ]


def _trust(state: State, host: Host, pem: str, done: str, prelude: str) -> bool:
    install = (
        "command -v update-ca-certificates >/dev/null || { apt-get update -q && "
        "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ca-certificates; } >&2\n"
    )
    parts = [
        prelude,
        install,
        script({FILE: (pem, "644")}),
        "update-ca-certificates >&2\n",
        script({DONE: (done, "644")}),
    ]
    result = run(host, "sh -es", stdin="".join(parts), timeout=300)
    if not result.ok:
        complain(host, f"the private CA could not be installed: {(result.stderr or result.stdout)[-600:]}")
    return result.ok
