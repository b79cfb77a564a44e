"""Archives of container images in k3s' images folder: sent from a bundle, or fetched from a mirror that is one."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Generator, Mapping

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import transient, trusted
from hami_k3s.difference import NOT_THERE, Difference, noted
from hami_k3s.facts.files import Digests
from hami_k3s.operations import bundle
from hami_k3s.releases import ARCHITECTURES, architecture
from hami_k3s.releases.archives import Archive, wanted
from hami_k3s.releases.origin import STORE, Origin
from hami_k3s.remote import run
from hami_k3s.settings import Settings
from hami_k3s.templating import render

# k3s imports what lies here before it starts anything; the list says which archives do.
FOLDER = "/var/lib/rancher/k3s/agent/images"
LIST = f"{STORE}/images.list"
PREFIX = "hami-k3s-"
MOST_MIB = 16 << 10
LIMIT = "k3s_download_timeout"


def _listed(archives: list[Archive]) -> str:
    return "".join(sorted(one.identity for one in archives))


@operation()
def imported(settings: Settings, origin: Origin) -> Generator[PyinfraCommand]:
    """
    The locked images in k3s' images folder, before k3s starts.

    + settings: the host's settings
    + origin: lock, bundle and proxies

    **Example:**

    .. code:: python

        images.imported(name="Image archives", settings=settings, origin=origin.of(settings))
    """
    found = trusted.read(host, Digests, paths=[LIST])
    if not noted(host, differences(found, settings, origin)):
        host.noop("the image archives are there")
        return
    yield FunctionCommand(place, (settings, origin), {})


def differences(found: Mapping[str, tuple[str, str]], settings: Settings, origin: Origin) -> list[Difference]:
    """From the digest of LIST."""
    lists = {_listed(wanted(settings, origin, arch)) for arch in ARCHITECTURES.values()}
    if LIST in found and found[LIST][0] in {hashlib.sha256(one.encode()).hexdigest() for one in lists}:
        return []
    seen = "those of another lock" if LIST in found else NOT_THERE
    return [Difference("images", FOLDER, seen, f"those of {origin.judge}")]


def place(state: State, host: Host, settings: Settings, origin: Origin) -> bool:
    """Send or fetch the archives, check them, link them where k3s looks, take away earlier ones, write the list last."""
    arch = architecture(run(host, "uname -m").stdout.strip())
    archives = wanted(settings, origin, arch) if arch else []
    names = [one.name for one in archives]
    if origin.bundle is not None and names and not bundle.send(state, host, origin.bundle, names):
        return False
    script = render(
        "scripts/images.sh",
        archives=archives,
        links={one.name: f"{PREFIX}{posixpath.basename(one.name)}" for one in archives},
        list=_listed(archives),
        list_file=LIST,
        prefix=PREFIX,
        folder=FOLDER,
        store=STORE,
        judge=origin.judge,
        most_mib=MOST_MIB,
        limit=settings.k3s_download_timeout,
    )
    limit = settings.k3s_download_timeout * max(1, len(archives))
    return transient.work(state, host, "images", "Images", origin.prelude + script, limit, LIMIT)
