"""Files that this project owns on a host, compared in one command."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from io import StringIO

from pyinfra import host
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.operations import files

from hami_k3s.facts.files import Digests


@operation()
def owned(contents: Mapping[str, tuple[str, str]]) -> Generator[PyinfraCommand]:
    """
    Keep several files exactly as given; their folders are made.

    + contents: path -> (text, mode)

    **Example:**

    .. code:: python

        owned(name="k3s' own files", contents={"/etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml": (text, "644")})
    """
    found = host.get_fact(Digests, paths=sorted(contents))
    for path, (text, mode) in contents.items():
        if found.get(path) == (hashlib.sha256(text.encode()).hexdigest(), mode):
            continue
        yield from files.put._inner(src=StringIO(text), dest=path, mode=mode, create_remote_dir=True)
    if all(found.get(p) == (hashlib.sha256(t.encode()).hexdigest(), m) for p, (t, m) in contents.items()):
        host.noop(f"{len(contents)} files are as they should be")
