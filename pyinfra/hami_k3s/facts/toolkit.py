"""NVIDIA's apt repository on a host and the container toolkit's packages."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from pyinfra.api import FactBase, QuoteString, StringCommand
from typing_extensions import override

from hami_k3s.facts import batch
from hami_k3s.releases import PACKAGES

__all__ = ["KEY", "PACKAGES", "SOURCE", "Toolkit", "ToolkitState"]
KEY = "/etc/apt/keyrings/nvidia-container-toolkit.asc"
SOURCE = "/etc/apt/sources.list.d/nvidia-container-toolkit.sources"


@dataclass(frozen=True)
class ToolkitState:
    """`fingerprints` of the primary keys in the keyring; `source` the deb822 text; `others`: source files of the same
    repository that are not ours; `candidates`: versions apt knows; `installed` and `held`: per package."""

    fingerprints: tuple[str, ...] = ()
    source: str | None = None
    others: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    installed: dict[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    missing_tools: tuple[str, ...] = ()
    machine: str = ""


_QUERY = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status} ${db:Status-Want}\\n' " + " ".join(
    PACKAGES
)


TOOLS = (
    "for t in curl gpg; do command -v $t >/dev/null || echo $t; done; [ -e /etc/ssl/certs/ca-certificates.crt ]"
    " || echo ca-certificates; true"
)


def probes(url: str, version: str) -> dict[str, str]:
    """The questions, for a repository at this URL."""
    site = url.split("://", 1)[1]
    return {
        "machine": "uname -m",
        # gpg makes a home for itself, even to read.
        "key": f"[ -f {KEY} ] && h=$(mktemp -d) && GNUPGHOME=$h gpg --batch --with-colons --show-keys {KEY}; s=$?; "
        'rm -rf "$h"; exit $s',
        "source": f"cat {SOURCE}",
        "others": f"grep -lF -e {shlex.quote(site)} -e nvidia.github.io/libnvidia-container /etc/apt/sources.list "
        f"/etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources | grep -vxF {SOURCE}",
        # apt's lists are read only for packages that are not there yet: that takes longer than all the rest
        "packages": f"q=$({_QUERY}); printf '%s\\n' \"$q\"; "
        f'[ "$(printf \'%s\\n\' "$q" | grep -c {shlex.quote(f" {version}-1 installed")})" = {len(PACKAGES)} ] ||'
        " apt-cache madison nvidia-container-toolkit; true",
        "tools": TOOLS,
    }


def primary_fingerprints(colons: str) -> tuple[str, ...]:
    """Fingerprints of the primary keys in `gpg --with-colons --show-keys` output."""
    found, after = [], ""
    for line in colons.splitlines():
        fields = line.split(":")
        if fields[0] == "fpr" and after == "pub" and len(fields) > 9:
            found.append(fields[9])
        if fields[0] in ("pub", "sub", "fpr"):
            after = fields[0]
    return tuple(found)


def parse(output: list[str]) -> ToolkitState:
    """ToolkitState from the answers to `probes`."""
    answers = batch.parse(output)

    def words(name: str) -> tuple[str, ...]:
        return tuple(answers.get(name, batch.NOTHING).text.split())

    installed, held, candidates = {}, [], []
    for line in answers.get("packages", batch.NOTHING).text.splitlines():
        if "|" in line:  # apt's: package | version | source
            candidates.append(line.split("|")[1].strip())
            continue
        package, release, status, want = ([*line.split(), "", "", "", ""])[:4]
        if status == "installed":
            installed[package] = release
        held += [package] if want == "hold" else []
    return ToolkitState(
        fingerprints=primary_fingerprints(answers.get("key", batch.NOTHING).text),
        source=answers.get("source", batch.NOTHING).value,
        others=words("others"),
        candidates=tuple(candidates),
        installed=installed,
        held=tuple(held),
        missing_tools=words("tools"),
        machine=answers.get("machine", batch.NOTHING).text,
    )


class Toolkit(FactBase[ToolkitState]):
    """
    Returns the state of NVIDIA's repository and packages.

    + url: the repository, to find other source files that name it too
    + version: the toolkit's, without Debian's revision; `candidates` is empty when all packages have it

    .. code:: python

        ToolkitState(fingerprints=("C95B...",), installed={"nvidia-container-toolkit": "1.19.1-1", ...}, held=(...), ...)
    """

    default = ToolkitState

    @override
    def command(self, url: str, version: str) -> StringCommand:
        return StringCommand("sh", "-c", QuoteString(batch.script(probes(url, version))))

    @override
    def process(self, output: list[str]) -> ToolkitState:
        return parse(output)


class MissingTools(FactBase[list[str]]):
    """
    Returns the packages that downloads and the check of keys need and that are not there.

    .. code:: python

        ["gpg"]
    """

    default = list

    @override
    def command(self) -> StringCommand:
        return StringCommand(TOOLS)

    @override
    def process(self, output: list[str]) -> list[str]:
        return list(output)
