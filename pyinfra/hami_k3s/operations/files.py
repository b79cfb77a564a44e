"""Files that this project owns on a host, compared in one command and written in another."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from base64 import b64encode
from collections.abc import Generator, Mapping

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import trusted
from hami_k3s.difference import NOT_THERE, Difference, noted
from hami_k3s.facts.files import Digests
from hami_k3s.operations.registries import Registries
from hami_k3s.remote import run
from hami_k3s.waits import complain

Contents = Mapping[str, tuple[str, str]]


@operation()
def owned(contents: Contents, registries: Registries | None = None) -> Generator[PyinfraCommand]:
    """
    Keep several files exactly as given; their folders are made. Each gets its name only when it is complete.

    + contents: path -> (text, mode)
    + registries: entries of registries.yaml, which the user may have too

    **Example:**

    .. code:: python

        owned(name="k3s' own files", contents={"/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml": (text, "644")})
    """
    found = trusted.read(host, Digests, paths=paths(contents, registries))
    different = [one.what for one in noted(host, differences(found, contents, registries))]
    if not different:
        host.noop(f"{len(contents)} files are as they should be")
        return
    if other := {path: wanted for path, wanted in contents.items() if path in different}:
        yield FunctionCommand(write, (other,), {})
    if registries is not None and registries.paths[0] in different:
        yield FunctionCommand(registries.apply, (), {})


def paths(contents: Contents, registries: Registries | None = None) -> list[str]:
    """What `owned` looks at."""
    return sorted({*contents, *(registries.paths if registries else ())})


def differences(
    found: Mapping[str, tuple[str, str]], contents: Contents, registries: Registries | None = None
) -> list[Difference]:
    """From the digests and modes of the files, and of those that `registries` names."""
    different = []
    for path, (text, mode) in contents.items():
        there = tuple(found.get(path, ()))
        if there == (hashlib.sha256(text.encode()).hexdigest(), mode):
            continue
        changed = "another text" if there[:1] != (hashlib.sha256(text.encode()).hexdigest(),) else ""
        seen = changed or f"mode {there[1]}" if there else NOT_THERE
        different.append(Difference("file", path, seen, f"as written, mode {mode}"))
    if registries is not None and not registries.applied(found):
        seen = "other entries, or another mode" if registries.paths[0] in found else NOT_THERE
        different.append(
            Difference(
                "file",
                registries.paths[0],
                seen,
                "the entries of k3s_registries" if registries.wanted else "none",
            )
        )
    return different


def script(contents: Contents) -> str:
    """Shell that writes the files, each under another name first."""
    lines = ["set -eu", "umask 077"]
    for path, (text, mode) in contents.items():
        name, new = shlex.quote(path), shlex.quote(f"{path}.hami-k3s-new")
        lines += [
            f"(umask 022; mkdir -p {shlex.quote(posixpath.dirname(path))})",
            f"base64 -d >{new} <<'END'",
            b64encode(text.encode()).decode(),
            "END",
            f"chmod {shlex.quote(mode)} {new}",
            f"mv -f {new} {name}",
        ]
    return "\n".join(lines) + "\n"


def write(state: State, host: Host, contents: Contents) -> bool:
    """Write them. False, with the host's reason, when one could not be written."""
    result = run(host, "sh -s", stdin=script(contents))
    if not result.ok:
        complain(host, f"{', '.join(contents)} could not be written: {result.stderr or result.stdout}")
    return result.ok
