"""A released binary: verified, under a versioned path, then linked. The link never points to a file that was not verified."""

from __future__ import annotations

from collections.abc import Callable, Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import transient
from hami_k3s.facts.binary import Binary
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.releases import architecture
from hami_k3s.templating import render


def path(tool: str, version: str) -> str:
    """Where a verified binary of this version is."""
    return f"{LIBRARY}/{tool}-{version}"


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
    + aliases: further names for the tool, made only where no command of that name is found

    **Example:**

    .. code:: python

        binary.released(tool="helm", version="v4.2.3", urls=releases.helm_urls, base="https://get.helm.sh",
                        setting="helm_release_url", limit=300)
    """
    versioned, public = path(tool, version), f"/usr/local/bin/{tool}"
    state = host.get_fact(Binary, versioned=versioned, public=public)
    wants_link = state.link != versioned and (replace or state.link == "" or state.link.startswith(LIBRARY))
    if state.there and not wants_link:
        host.noop(f"{tool} {version} is there")
        return
    if not state.there:
        # Anything else was refused by the preflight, before this stage.
        arch = architecture(state.machine) or "amd64"
        url, sums_url, sums_name = urls(base, version, arch)
        limit_setting = f"{tool}_download_timeout"
        script = render(
            "scripts/download.sh",
            dest=versioned,
            url=url,
            sums_url=sums_url,
            sums_name=sums_name,
            member=f"linux-{arch}/{tool}" if sums_name.endswith(".tar.gz") else "",
            setting=setting,
            limit=limit,
            limit_setting=limit_setting,
        )
        yield FunctionCommand(
            transient.work, (f"{tool}-download", f"{tool} {version}", script, limit, limit_setting), {}
        )
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
