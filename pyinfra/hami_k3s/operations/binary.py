"""A released binary: verified, under a versioned path, then linked. The link never points to a file that was not verified."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from pyinfra import host
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import releases, transient, trusted, waits
from hami_k3s.difference import NOT_THERE, Difference, noted
from hami_k3s.facts.binary import Binary, BinaryState
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.operations import bundle
from hami_k3s.releases import architecture
from hami_k3s.releases.origin import STORE, Origin, in_bundle
from hami_k3s.settings import Settings
from hami_k3s.templating import render

# What a released binary says of itself, to tell an older file under a newer name.
SHOWS = {"k3s": ["--version"], "helm": ["version", "--template", "{{.Version}}"]}
MOST_MIB = 512


def path(tool: str, version: str) -> str:
    """Where a verified binary of this version is."""
    return f"{LIBRARY}/{tool}-{version}"


@dataclass(frozen=True)
class Tool:
    """A released binary and where it comes from.

    `urls`: (base, version, arch) -> (file, sums, name in the sums). `base` is the value of the setting `setting`; `limit`
    is for the download, in seconds.
    """

    name: str
    version: str
    urls: Callable[[str, str, str], tuple[str, str, str]]
    base: str
    setting: str
    limit: int

    @property
    def places(self) -> dict[str, str]:
        """What the fact `Binary` is asked for."""
        return {"versioned": path(self.name, self.version), "public": f"/usr/local/bin/{self.name}"}


def k3s(settings: Settings) -> Tool:
    """k3s, as these settings want it."""
    base, limit = settings.k3s_release_url, settings.k3s_download_timeout
    return Tool("k3s", settings.k3s_version, releases.k3s_urls, base, "k3s_release_url", limit)


def helm(settings: Settings) -> Tool:
    """helm, as these settings want it."""
    base, limit = settings.helm_release_url, settings.helm_download_timeout
    return Tool("helm", settings.helm_version, releases.helm_urls, base, "helm_release_url", limit)


def download(tool: Tool, arch: str, origin: Origin, locked: str) -> transient.Step:
    """Fetch it, or take it from what a bundle has sent, and put it under its versioned path once it is verified.

    + locked: the sum that the lock has, "" without one
    """
    url, sums_url, sums_name = tool.urls(tool.base, tool.version, arch)
    sent, limit_setting = "", f"{tool.name}_download_timeout"
    if origin.bundle is not None:
        name = in_bundle(tool.setting, url, tool.base)
        entry = origin.bundle.files.get(name)
        sent, locked = f"{STORE}/{name}", locked or (entry.sha256 if entry else "")
    script = render(
        "scripts/download.sh",
        dest=path(tool.name, tool.version),
        url=url,
        sums_url=sums_url,
        sums_name=sums_name,
        sha256=locked,
        judge=origin.judge,
        sent=sent,
        member=f"linux-{arch}/{tool.name}" if sums_name.endswith(".tar.gz") else "",
        shows=SHOWS.get(tool.name, []),
        version=tool.version,
        most_mib=MOST_MIB,
        setting=tool.setting,
        limit=tool.limit,
        limit_setting=limit_setting,
    )
    what = f"{tool.name} {tool.version}"
    return transient.Step(f"{tool.name}-download", what, origin.prelude + script, tool.limit, limit_setting)


def differences(
    state: BinaryState, tool: str, version: str, replace: bool, locked: str | None = ""
) -> list[Difference]:
    """Of the verified file and of the link in /usr/local/bin.

    + locked: the sum that the lock has, "" without one
    """
    versioned, public = path(tool, version), f"/usr/local/bin/{tool}"
    found = []
    if not state.there:
        found.append(Difference("binary", versioned, NOT_THERE, version))
    elif locked and state.sha256 != locked:
        found.append(Difference("binary", versioned, f"sha256 {state.sha256 or 'unknown'}", locked))
    if state.link != versioned and (replace or state.link == "" or state.link.startswith(LIBRARY)):
        seen = {"": NOT_THERE, "file": "another file"}.get(state.link, state.link)
        found.append(Difference("link", public, seen, versioned))
    return found


@operation()
def released(
    tool: Tool,
    replace: bool = True,
    aliases: tuple[str, ...] = (),
    origin: Origin | None = None,
    link: bool = True,
) -> Generator[PyinfraCommand]:
    """
    One released binary in /usr/local/bin.

    + tool: which, and where it comes from
    + replace: take over a public name that is a file of somebody else's
    + origin: lock, bundle and proxies
    + aliases: further names for the tool, made only where no command of that name is found
    + link: false: the verified file alone, the public name stays what it is

    **Example:**

    .. code:: python

        binary.released(name="Verified binary", tool=binary.helm(settings))
    """
    places = tool.places
    versioned, public = places["versioned"], places["public"]
    state = trusted.read(host, Binary, **places)
    origin = origin or Origin()
    # Anything else was refused by the preflight, before this stage.
    arch = architecture(state.machine) or "amd64"
    locked = origin.sha256(tool.name, arch)
    found = differences(state, tool.name, tool.version, replace, locked)
    other = {one.what for one in noted(host, found)}
    there, wants_link = versioned not in other, link and public in other
    if there and not wants_link:
        host.noop(f"{tool.name} {tool.version} is there")
        return
    if locked is None:
        missing = f"{origin.judge} has no {tool.name} for {arch}: `python -m hami_k3s.releases lock --arch {arch}` adds it"
        yield FunctionCommand(waits.fail, (missing,), {})
        return
    if not there:
        if origin.bundle is not None:
            name = in_bundle(tool.setting, tool.urls(tool.base, tool.version, arch)[0], tool.base)
            yield FunctionCommand(bundle.send, (origin.bundle, [name]), {})
        yield FunctionCommand(transient.work, tuple(download(tool, arch, origin, locked)), {})
    if wants_link:
        new = f"{public}.new"
        yield StringCommand(
            "ln -sfn",
            QuoteString(versioned),
            QuoteString(new),
            "&& mv -fT",
            QuoteString(new),
            QuoteString(public),
            *[
                f"&& {{ command -v {name} >/dev/null || ln -s {tool.name} /usr/local/bin/{name}; }}"
                for name in aliases
            ],
        )
