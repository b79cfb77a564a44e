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


@pytest.fixture(params=["driver", "nvcc"])
def probe(request: pytest.FixtureRequest, sizes: SlicePlan) -> Callable[..., list[str]]:
    """`probe("pool", hold=True)`: the command of one kind of probe, each test with both."""
    kind: str = request.param
    path = request.getfixturevalue("nvcc_probe") if kind == "nvcc" else ""
    chunk, cap = str(sizes.chunk_mib), str(sizes.cap_mib)

    def command(route: str = "sync", hold: bool = False) -> list[str]:
        if kind == "nvcc":
            return [
                path,
                chunk,
                cap,
                "60" if hold else "0",
                f"route={route}",
                *(["until-stdin-closes"] * hold),
            ]
        program = [sys.executable, "-c", source("driver_probe.py"), "--chunk-mib", chunk, "--cap-mib", cap]
        return [*program, "--route", route, *(["--hold", "60", "--until-stdin-closes"] * hold)]

    command.kind = kind  # type: ignore[attr-defined]  # for the names of recordings
    return command


@pytest.fixture
def unlimited() -> dict[str, str]:
    """An environment without a limit, in which CUDA counts cards as nvidia-smi does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return {**kept, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.fixture
def limited(limited_pod: Callable[[str], dict[str, str]]) -> dict[str, str]:
    """The environment that HAMi's device plugin gives a pod with one slice."""
    return limited_pod("a")


@pytest.fixture
def limited_pod(
    unlimited: dict[str, str], sizes: SlicePlan, tmp_path: Path
) -> Callable[[str], dict[str, str]]:
    """The same for several pods: each has a usage file of its own."""
    library = os.environ.get("HAMI_CORE")
    if not library:
        pytest.skip("HAMI_CORE names no libvgpu.so")
    Path("/tmp/vgpulock").mkdir(mode=0o777, exist_ok=True)  # HAMi mounts it; HAMi-core locks in it
    preload = str(Path(library).resolve(strict=True))

    def environment(pod: str) -> dict[str, str]:
        return {
            **unlimited,
            "LD_PRELOAD": preload,
            "CUDA_DEVICE_MEMORY_LIMIT_0": f"{sizes.slice_mib}m",
            "CUDA_DEVICE_SM_LIMIT": "0",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(tmp_path / f"{pod}.cache"),
            "LIBCUDA_LOG_LEVEL": "1",
        }

    return environment


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
