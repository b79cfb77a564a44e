"""A folder with a short name: a machine's containerd socket is below it, and a socket's path may have 107 bytes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="k3s-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
