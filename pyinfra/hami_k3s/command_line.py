"""The command that was typed: who typed it, as text that may be kept, and the same again for some of its hosts."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from hami_k3s.settings import SECRET

STARTED = datetime.now(UTC)
# What the command takes from the environment.
ENVIRONMENT = ("GPU_FLEET", "GPU_NODES", "GPU_LOCK")
PASSWORDS = ("--ssh-password", "--password", "--ssh-key-password", "--key-password")
HIDDEN = "***"


def operator() -> str:
    """`user@host` of the control side; under sudo the user who called it."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def shown(words: Sequence[str] | None = None) -> str:
    """The command as one line for a shell, secrets hidden."""
    given = list(sys.argv if words is None else words)
    program, rest = _program(given[0] if given else "pyinfra"), given[1:]
    hidden, after = [], ""
    for word in rest:
        hidden.append(_hide(word, after))
        after = word
    front = [f"{name}={shlex.quote(_url(os.environ[name]))}" for name in ENVIRONMENT if os.environ.get(name)]
    return " ".join(
        [*front, *(word if word == HIDDEN else shlex.quote(word) for word in [*program, *hidden])]
    )


def again(hosts: Iterable[str], words: Sequence[str] | None = None) -> str:
    """The same command for these hosts alone: --limit in place of the ones that were given."""
    given = list(sys.argv if words is None else words)
    kept, skip = [], False
    for word in given:
        if not skip and word != "--limit" and not word.startswith("--limit="):
            kept.append(word)
        skip = word == "--limit"
    return shown([*kept, *(part for host in hosts for part in ("--limit", host))])


def _program(path: str) -> list[str]:
    name = os.path.basename(path)
    return ["pyinfra"] if name in ("pyinfra", "__main__.py") else [path]


def _hide(word: str, after: str) -> str:
    option, equals, value = word.partition("=")
    if after in PASSWORDS:
        return HIDDEN
    if option in PASSWORDS and equals:
        return f"{option}={HIDDEN}"
    if option == "--data" and equals:
        return f"{option}={_setting(value)}"
    return _setting(word) if after == "--data" else _url(word)


def _setting(pair: str) -> str:
    key, equals, _ = pair.partition("=")
    secret = key in SECRET or re.search(r"password|secret|token$", key)
    return f"{key}={HIDDEN}" if equals and secret else _url(pair)


def _url(text: str) -> str:
    """Without user and password of a URL."""
    return re.sub(r"(://)[^/@\s]*@", rf"\1{HIDDEN}@", text)
