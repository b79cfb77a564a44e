"""What the tests on a real card share. Without a card each test is skipped, and says why.

HAMI_CORE=/path/libvgpu.so   also run under HAMi-core's limit
GPU_RECORD=DIR               keep what the tools printed, for tests/recorded/

The first card of the machine is the one under test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hami_k3s.isolation.evidence import Card
from hami_k3s.isolation.parse import parse_cards
from hami_k3s.isolation.plan import SlicePlan, plan
from hami_k3s.probes import source
from tests.gpu.running import Record, query


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = None
    if shutil.which("nvidia-smi") is None:
        reason = "no NVIDIA card: nvidia-smi is not installed"
    elif subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode != 0:
        reason = "no NVIDIA card: nvidia-smi -L failed"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def record() -> Record:
    """Keeps a text under GPU_RECORD when that is set."""

    def keep(name: str, text: str) -> None:
        if directory := os.environ.get("GPU_RECORD"):
            Path(directory).mkdir(parents=True, exist_ok=True)
            (Path(directory) / name).write_text(text, encoding="utf-8")

    return keep


@pytest.fixture
def card() -> Card:
    """The card under test as the host sees it now."""
    return parse_cards(query())[0]


@pytest.fixture
def sizes(card: Card) -> SlicePlan:
    """The plan that verify would make for this card."""
    assert card.free_mib is not None
    return plan(card.memory_mib, card.free_mib)


@pytest.fixture
def driver_probe() -> Callable[..., list[str]]:
    """The command that runs the driver probe with these arguments."""

    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-c", source("driver_probe.py"), *arguments]

    return command


@pytest.fixture
def unlimited() -> dict[str, str]:
    """An environment without a limit, in which CUDA counts cards as nvidia-smi does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return {**kept, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.fixture
def limited(unlimited: dict[str, str], sizes: SlicePlan, tmp_path: Path) -> dict[str, str]:
    """The environment that HAMi's device plugin gives a pod with one slice."""
    library = os.environ.get("HAMI_CORE")
    if not library:
        pytest.skip("HAMI_CORE names no libvgpu.so")
    Path("/tmp/vgpulock").mkdir(mode=0o777, exist_ok=True)  # HAMi mounts it; HAMi-core locks in it
    return {
        **unlimited,
        "LD_PRELOAD": str(Path(library).resolve(strict=True)),
        "CUDA_DEVICE_MEMORY_LIMIT_0": f"{sizes.slice_mib}m",
        "CUDA_DEVICE_SM_LIMIT": "0",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(tmp_path / "vgpu.cache"),
        "LIBCUDA_LOG_LEVEL": "1",
    }


@pytest.fixture(scope="session")
def nvcc_probe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the lab's probe, compiled by the real nvcc."""
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    directory = tmp_path_factory.mktemp("nvcc")
    (directory / "probe.cu").write_text(source("nvcc_probe.cu"))
    subprocess.run([nvcc, "-o", "probe", "probe.cu"], cwd=directory, check=True)
    return str(directory / "probe")
