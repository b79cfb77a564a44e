"""NVIDIA's apt repository and the container toolkit."""

from __future__ import annotations

from collections.abc import Generator
from io import StringIO

from pyinfra import host
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.operations import files

from hami_k3s import transient, trusted, waits
from hami_k3s.facts.toolkit import KEY, PACKAGES, SOURCE, Toolkit, ToolkitState
from hami_k3s.operations import bundle
from hami_k3s.releases import architecture
from hami_k3s.releases.origin import Origin
from hami_k3s.templating import render

LIMIT = "toolkit_timeout"


def _pinned(state: ToolkitState, version: str) -> bool:
    return all(state.installed.get(package) == f"{version}-1" for package in PACKAGES)


@operation()
def repository(
    url: str, fingerprint: str, version: str, limit: int, origin: Origin | None = None
) -> Generator[PyinfraCommand]:
    """
    NVIDIA's repository: its key, checked by fingerprint, and one deb822 source. A changed fingerprint rotates the key.

    + url: repository; the key is at URL/gpgkey
    + fingerprint: the key's full fingerprint
    + version: the toolkit version that the lists must offer
    + limit: seconds for each step
    + origin: lock, bundle and proxies

    **Example:**

    .. code:: python

        toolkit.repository(url="https://nvidia.github.io/libnvidia-container", fingerprint="C95B...", version="1.19.1", limit=900)
    """
    state = trusted.read(host, Toolkit, url=url, version=version)
    source = render("nvidia-container-toolkit.sources", url=url, key=KEY)
    key_right, source_right = state.fingerprints == (fingerprint,), state.source == source.rstrip("\n")
    lists_right = f"{version}-1" in state.candidates or _pinned(state, version)
    if key_right and source_right and lists_right and not state.others:
        host.noop("the repository is there, with the right key")
        return
    origin = origin or Origin()
    missing = [tool for tool in state.missing_tools if origin.bundle is None or tool == "gpg"]
    if missing:
        script = render(
            "scripts/apt-install.sh", packages=missing, update=True, hold=[], limit=limit, sums={}, judge=""
        )
        what = f"Installing {', '.join(missing)}"
        yield FunctionCommand(transient.work, ("apt-tools", what, origin.prelude + script, limit, LIMIT), {})
    if origin.bundle is not None:
        wanted = origin.bundle.of("toolkit", architecture(state.machine) or "amd64")
        yield FunctionCommand(bundle.send, (origin.bundle, wanted), {})
    if not key_right:
        script = render("scripts/apt-key.sh", url=url, fingerprint=fingerprint, key=KEY)
        work = ("apt-key", "Repository key", origin.prelude + script, limit, LIMIT)
        yield FunctionCommand(transient.work, work, {})
    for path in state.others:
        # Two sources of one repository with different keys stop every apt command.
        aside = f"{path}.disabled-by-hami-k3s"
        yield StringCommand(
            "mv -f", QuoteString(path), QuoteString(aside), "&& echo", QuoteString(f"moved aside: {aside}")
        )
    if not source_right:
        yield from files.put._inner(src=StringIO(source), dest=SOURCE, mode="644")
    script = render(
        "scripts/apt-update.sh",
        url=url,
        fingerprint=fingerprint,
        source=SOURCE,
        limit=limit,
        package=PACKAGES[0],
        version=f"{version}-1",
    )
    work = ("apt-update", "Package lists", origin.prelude + script, limit, LIMIT)
    yield FunctionCommand(transient.work, work, {})


@operation()
def packages(url: str, version: str, limit: int, origin: Origin | None = None) -> Generator[PyinfraCommand]:
    """
    The toolkit's four packages, all at one version and held there.

    + url: repository, as given to `repository`
    + version: toolkit version, without Debian's revision
    + limit: seconds, waiting for another process' dpkg lock included
    + origin: lock, bundle and proxies

    **Example:**

    .. code:: python

        toolkit.packages(url="https://nvidia.github.io/libnvidia-container", version="1.19.1", limit=900)
    """
    state = trusted.read(host, Toolkit, url=url, version=version)
    if _pinned(state, version) and set(PACKAGES) <= set(state.held):
        host.noop(f"the toolkit is {version}, held")
        return
    origin = origin or Origin()
    arch = architecture(state.machine) or "amd64"
    locked = origin.debs(arch)
    if locked is None:
        missing = f"{origin.judge} has no packages for {arch}: `python -m hami_k3s.releases lock --arch {arch}` adds them"
        yield FunctionCommand(waits.fail, (missing,), {})
        return
    script = render(
        "scripts/apt-install.sh",
        sums={f"{package}={version}-1": locked[package] for package in PACKAGES if package in locked},
        judge=origin.judge,
        packages=[f"{package}={version}-1" for package in PACKAGES],
        update=False,
        hold=PACKAGES,
        limit=limit,
    )
    what = f"NVIDIA Container Toolkit {version}"
    yield FunctionCommand(transient.work, ("toolkit", what, origin.prelude + script, limit, LIMIT), {})
