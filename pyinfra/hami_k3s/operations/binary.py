"""A released binary: verified, under a versioned path, then linked. The link never points to a file that was not verified."""

from __future__ import annotations

from collections.abc import Callable, Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import transient, trusted, waits
from hami_k3s.difference import NOT_THERE, Difference
from hami_k3s.facts.binary import Binary, BinaryState
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.operations import bundle
from hami_k3s.releases import architecture
from hami_k3s.releases.origin import STORE, Origin, in_bundle
from hami_k3s.templating import render

# What a released binary says of itself, to tell an older file under a newer name.
SHOWS = {"k3s": ["--version"], "helm": ["version", "--template", "{{.Version}}"]}
MOST_MIB = 512


def path(tool: str, version: str) -> str:
    """Where a verified binary of this version is."""
    return f"{LIBRARY}/{tool}-{version}"


def places(tool: str, version: str) -> dict[str, str]:
    """What the fact `Binary` is asked for."""
    return {"versioned": path(tool, version), "public": f"/usr/local/bin/{tool}"}


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
    tool: str,
    version: str,
    urls: Callable[[str, str, str], tuple[str, str, str]],
    base: str,
    setting: str,
    limit: int,
    replace: bool = True,
    aliases: tuple[str, ...] = (),
    origin: Origin | None = None,
) -> Generator[PyinfraCommand]:
    """
    One released binary in /usr/local/bin.

    + tool: its name, "k3s" or "helm"
    + version: the release
    + urls: (base, version, arch) -> (file, sums, name in the sums)
    + base: where releases are, the value of the setting `setting`
    + setting: the setting that names another source
    + limit: seconds for the download
    + replace: take over a public name that is a file of somebody else's
    + origin: lock, bundle and proxies
    + aliases: further names for the tool, made only where no command of that name is found

    **Example:**

    .. code:: python

        binary.released(tool="helm", version="v4.2.3", urls=releases.helm_urls, base="https://get.helm.sh",
                        setting="helm_release_url", limit=300)
    """
    versioned, public = path(tool, version), f"/usr/local/bin/{tool}"
    state = trusted.read(host, Binary, **places(tool, version))
    origin = origin or Origin()
    # Anything else was refused by the preflight, before this stage.
    arch = architecture(state.machine) or "amd64"
    locked = origin.sha256(tool, arch)
    other = {one.what for one in differences(state, tool, version, replace, locked)}
    there, wants_link = versioned not in other, public in other
    if not other:
        host.noop(f"{tool} {version} is there")
        return
    if locked is None:
        missing = f"{origin.judge} has no {tool} for {arch}: `python -m hami_k3s.releases lock --arch {arch}` adds it"
        yield FunctionCommand(waits.fail, (missing,), {})
        return
    if not there:
        url, sums_url, sums_name = urls(base, version, arch)
        limit_setting, judge, sent = f"{tool}_download_timeout", origin.judge, ""
        if origin.bundle is not None:
            name = in_bundle(setting, url, base)
            yield FunctionCommand(bundle.send, (origin.bundle, [name]), {})
            entry = origin.bundle.files.get(name)
            sent, locked = f"{STORE}/{name}", locked or (entry.sha256 if entry else "")
        script = render(
            "scripts/download.sh",
            dest=versioned,
            url=url,
            sums_url=sums_url,
            sums_name=sums_name,
            sha256=locked,
            judge=judge,
            sent=sent,
            member=f"linux-{arch}/{tool}" if sums_name.endswith(".tar.gz") else "",
            shows=SHOWS.get(tool, []),
            version=version,
            most_mib=MOST_MIB,
            setting=setting,
            limit=limit,
            limit_setting=limit_setting,
        )
        work = (f"{tool}-download", f"{tool} {version}", origin.prelude + script, limit, limit_setting)
        yield FunctionCommand(transient.work, work, {})
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
                f"&& {{ command -v {name} >/dev/null || ln -s {tool} /usr/local/bin/{name}; }}"
                for name in aliases
            ],
        )
