"""A command of this machine in a rehearsal's small internet, where upstream's names lead to the mirror."""

from __future__ import annotations

import os
from pathlib import Path

from rehearsal import keys, network
from rehearsal.state import State

_ENTER = 'mount --bind "$0" /etc/hosts && exec nsenter --net="$1" -- "${@:2}"'


def command(state: State, words: list[str]) -> list[str]:
    """The command line that runs `words` there. Its files, its user and everything else are this machine's."""
    hosts = state.folder / "hosts"
    hosts.write_text(
        f"127.0.0.1 localhost\n{network.MIRROR_ADDRESS} {' '.join((keys.MIRROR_NAME, *keys.UPSTREAM))}\n"
    )
    space = Path("/run/netns", network.namespace(state.name))
    return ["unshare", "--mount", "bash", "-c", _ENTER, str(hosts), str(space), *words]


def environment(state: State) -> dict[str, str]:
    """For that command: it trusts the rehearsal's CA, and the fleet is the rehearsal's unless another is named."""
    authority = str(keys.folder() / "ca.crt")
    trusted = dict.fromkeys(("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"), authority)
    return {"GPU_FLEET": str(state.fleet), **os.environ, **trusted}
