"""NVIDIA's apt repository and the container toolkit."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import transient, trusted, waits
from hami_k3s.difference import NOT_THERE, Difference, noted
from hami_k3s.facts.toolkit import KEY, PACKAGES, SOURCE, MissingTools, Toolkit, ToolkitState
from hami_k3s.operations import bundle, files
from hami_k3s.releases import architecture
from hami_k3s.releases.origin import Origin
from hami_k3s.templating import render

LIMIT = "toolkit_timeout"


def _pinned(state: ToolkitState, version: str) -> bool:
    return all(state.installed.get(package) == f"{version}-1" for package in PACKAGES)


def _source(url: str) -> str:
    return render("nvidia-container-toolkit.sources", url=url, key=KEY)


def repository_differences(state: ToolkitState, url: str, fingerprint: str, version: str) -> list[Difference]:
    """Of the key, the source, other sources of the same repository, and the lists where packages are still to come."""
    found = []
    if state.fingerprints != (fingerprint,):
        found.append(Difference("key", KEY, " ".join(state.fingerprints) or NOT_THERE, fingerprint))
    if state.source != _source(url).rstrip("\n"):
        found.append(Difference("file", SOURCE, "another text" if state.source else NOT_THERE, url))
    found += [
        Difference("file", path, "a second source of the repository", "moved aside") for path in state.others
    ]
    if f"{version}-1" not in state.candidates and not _pinned(state, version):
        offered = ", ".join(state.candidates[:3]) or "no version"
        found.append(Difference("lists", PACKAGES[0], f"{offered} on offer", version))
    return found


def package_differences(state: ToolkitState, version: str) -> list[Difference]:
    """Of the four packages' versions, and of their holds."""
    wanted = f"{version}-1"
    found = [
        Difference("package", package, state.installed.get(package, NOT_THERE), wanted)
        for package in PACKAGES
        if state.installed.get(package) != wanted
    ]
    held = [package for package in PACKAGES if package in state.installed and package not in state.held]
    return found + [Difference("hold", package, "not held", "held") for package in held]


def _install(missing: list[str], limit: int, origin: Origin) -> Generator[PyinfraCommand]:
    """Packages of the distribution itself, any version."""
    if not missing:
        return
    script = render(
        "scripts/apt-install.sh", packages=missing, update=True, hold=[], limit=limit, sums={}, judge=""
    )
    what = f"Installing {', '.join(missing)}"
    yield FunctionCommand(transient.work, ("apt-tools", what, origin.prelude + script, limit, LIMIT), {})


@operation()
def tools(limit: int, origin: Origin | None = None) -> Generator[PyinfraCommand]:
    """
    What downloads need, on a host that gets no toolkit: curl and the system's certificates.

    + limit: seconds
    + origin: lock, bundle and proxies

    **Example:**

    .. code:: python

        toolkit.tools(name="curl", limit=900)
    """
    origin = origin or Origin()
    missing = [tool for tool in host.get_fact(MissingTools) if tool != "gpg"]
    if origin.bundle is not None or not missing:
        host.noop("downloads are possible" if not missing else "nothing is downloaded")
        return
    yield from _install(missing, limit, origin)


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
    different = {one.what for one in noted(host, repository_differences(state, url, fingerprint, version))}
    if not different:
        host.noop("the repository is there, with the right key")
        return
    origin = origin or Origin()
    yield from _install(
        [tool for tool in state.missing_tools if origin.bundle is None or tool == "gpg"], limit, origin
    )
    if origin.bundle is not None:
        wanted = origin.bundle.of("toolkit", architecture(state.machine) or "amd64")
        yield FunctionCommand(bundle.send, (origin.bundle, wanted), {})
    if KEY in different:
        script = render("scripts/apt-key.sh", url=url, fingerprint=fingerprint, key=KEY)
        work = ("apt-key", "Repository key", origin.prelude + script, limit, LIMIT)
        yield FunctionCommand(transient.work, work, {})
    for path in state.others:
        # Two sources of one repository with different keys stop every apt command.
        aside = f"{path}.disabled-by-hami-k3s"
        yield StringCommand(
            "mv -f", QuoteString(path), QuoteString(aside), "&& echo", QuoteString(f"moved aside: {aside}")
        )
    if SOURCE in different:
        yield FunctionCommand(files.write, ({SOURCE: (_source(url), "644")},), {})
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
    if not noted(host, package_differences(state, version)):
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
