"""The GPU stand-ins against what a real card, a real driver and HAMi-core printed (tests/recorded/h200)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hami_k3s import probes
from rehearsal import node, parts
from rehearsal.state import State

RECORDED = Path(__file__).parent.parent / "recorded" / "h200"
UUID = "GPU-f267499c-37f0-6227-95d2-9659518eaae9"
CARD = {"index": 0, "uuid": UUID, "name": "NVIDIA H200", "memory_mib": 143771, "compute_cap": "9.0", "cuda": "13.0",
        "bus_id": "00000000:00:06.0", "reserved_mib": 615, "context_mib": 518, "watts": 700}  # fmt: skip
PROBE = Path(probes.__file__).with_name("driver_probe.py")

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is not installed (make test installs it)"
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu-standin")
    parts.compile_libraries(folder)
    return folder


class Machine:
    """A pretended node: its files in a folder of its own, its processes with the stand-in driver."""

    def __init__(self, folder: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.libraries = folder, libraries
        monkeypatch.setattr(State, "node_folder", lambda state, name: folder / "etc")
        self.state = State.__new__(State)
        self.describe()
        (folder / "gpu").mkdir()

    def describe(self, *faults: str) -> None:
        about = {
            "name": "n",
            "profile": "h200",
            "driver": "580.159.04",
            "cards": [CARD],
            "faults": list(faults),
        }
        node.describe(self.state, about)

    def environment(
        self, limit: str | None = None, level: str | None = "1", preload: bool = True
    ) -> dict[str, str]:
        found = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "LD_", "LIBCUDA"))}
        found |= {"LD_LIBRARY_PATH": str(self.libraries), "REHEARSAL_ETC": str(self.folder / "etc"),
                  "REHEARSAL_RUN": str(self.folder)}  # fmt: skip
        if preload:
            found["LD_PRELOAD"] = str(self.libraries / "libvgpu.so")
            found["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = str(self.folder / f"{limit}.cache")
        if limit:
            found["CUDA_DEVICE_MEMORY_LIMIT_0"] = limit
        if level:
            found["LIBCUDA_LOG_LEVEL"] = level
        return found

    def smi(self, *arguments: str, **environment: object) -> subprocess.CompletedProcess[str]:
        environment = environment or {"preload": False}
        command = [sys.executable, str(parts.SOURCES / "nvidia-smi"), *arguments]
        return subprocess.run(
            command, env=self.environment(**environment), capture_output=True, text=True, check=False
        )  # type: ignore[arg-type]

    def probe(self, *arguments: str, **environment: object) -> tuple[dict[str, object], str]:
        command = [sys.executable, str(PROBE), *arguments]
        done = subprocess.run(
            command, env=self.environment(**environment), capture_output=True, text=True, check=True
        )  # type: ignore[arg-type]
        return json.loads(done.stdout), done.stderr

    def holder(self, cache: str) -> subprocess.Popen[str]:
        """Fills its 8000 MiB slice and holds it."""
        environment = self.environment("8000m") | {
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(self.folder / cache)
        }
        command = [sys.executable, str(PROBE), "--cap-mib", "9000", "--hold", "60"]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout
        assert json.loads(process.stdout.readline())["allocated_mib"] == 7424
        return process


@pytest.fixture
def machine(tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, built, monkeypatch)


def same_process(text: str) -> list[str]:
    """HAMi-core's lines with the process and thread taken out."""
    lines = [line for line in text.splitlines() if line.startswith("[HAMI-core")]
    lines = [re.sub(r"\(pid:\d+ thread=\d+ ", "(pid:P thread=T ", line) for line in lines]
    return [re.sub(r"\((\d+):\d+:", "(P:T:", re.sub(r"PID \d+", "PID P", line)) for line in lines]


@pytest.mark.parametrize(
    ("limit", "chunk", "first"), [("8000m", "256", 0), ("8000m", "64", 6), ("4000m", "1", 12)]
)
def test_refused_as_recorded(machine: Machine, limit: str, chunk: str, first: int) -> None:
    recorded = (RECORDED / "driver-api-probe.txt").read_text().splitlines()[first : first + 6]
    said = json.loads(recorded[3])
    found, stderr = machine.probe("--chunk-mib", chunk, "--cap-mib", "20480", limit=limit, level=None)
    assert (found["refused"], found["rc"]) == (True, 2)
    assert found["allocated_mib"] == said["refused_after_mib"]
    assert (found["free_before_mib"], found["total_mib"]) == (said["free_before"], said["total"])
    assert same_process(stderr) == same_process("\n".join(recorded))


@pytest.mark.parametrize("level", ["0", "1"])
def test_only_the_refusal_is_printed_at_the_charts_log_level(machine: Machine, level: str) -> None:
    _, stderr = machine.probe("--cap-mib", "20480", limit="8000m", level=level)
    assert same_process(stderr) == same_process((RECORDED / "cuda-runtime-probe-8000m.txt").read_text())


@pytest.mark.parametrize("file", ["routes-hami-core-5091a2f-8000m.txt", "routes-no-hami.txt"])
def test_routes_as_recorded(machine: Machine, file: str) -> None:
    rows = [json.loads(line) for line in (RECORDED / file).read_text().splitlines() if line.startswith("{")]
    assert len(rows) >= 6
    limited = "no-hami" not in file
    for row in rows:
        found, _ = machine.probe(
            "--route", row["route"], "--cap-mib", "20480", limit="8000m" if limited else None, preload=limited
        )
        assert {key: found[key] for key in row} == row


def test_a_full_card_refuses_without_hami(machine: Machine) -> None:
    found, stderr = machine.probe("--cap-mib", "200000", preload=False)
    assert (found["refused"], found["rc"]) == (True, 2)
    assert 143771 - 615 - 518 - 256 - 1 <= int(str(found["allocated_mib"])) <= 143771 - 615 - 518
    assert stderr == ""


def test_limit_taken_out_of_the_environment_limits_nothing(machine: Machine) -> None:
    found, _ = machine.probe("--cap-mib", "102400", limit=None)
    recorded = json.loads((RECORDED / "limit-env-removed.txt").read_text().splitlines()[0])
    assert (found["allocated_mib"], found["rc"]) == (recorded["refused_after_mib"], 0)
    assert (found["free_before_mib"], found["total_mib"]) == (recorded["free_before"], recorded["total"])


def test_a_shared_cache_keeps_the_limit_for_later_processes(machine: Machine) -> None:
    machine.probe("--cap-mib", "256", limit="8000m")
    cache = str(machine.folder / "8000m.cache")
    environment = machine.environment(None) | {"CUDA_DEVICE_MEMORY_SHARED_CACHE": cache}
    command = [sys.executable, str(PROBE), "--cap-mib", "20480"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["allocated_mib"] == 7424


def test_two_holders_in_the_hosts_view_and_after_a_kill(machine: Machine) -> None:
    recorded = (RECORDED / "two-holders-host-view.txt").read_text().splitlines()
    used, free = (int(text) for text in recorded[0].split(", ")[2:])
    holders = [machine.holder("a"), machine.holder("b")]
    query = ("--query-gpu=memory.used,memory.free", "--format=csv,noheader,nounits")
    try:
        now_used, now_free = (int(text) for text in machine.smi(*query).stdout.split(", "))
        assert abs(now_used - used) <= 16
        assert abs(now_free - free) <= 16
        apps = machine.smi(
            "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits"
        ).stdout
        assert sorted(apps.splitlines()) == sorted(f"{one.pid}, {UUID}, 7942" for one in holders)
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait()
        assert machine.smi(*query).stdout.split(", ")[0] == "7942"
    finally:
        for one in holders:
            one.kill()
            one.wait()
    assert machine.smi(*query).stdout.split(", ")[0] == "0"


def test_processes_of_one_container_share_its_slice(machine: Machine) -> None:
    first = machine.holder("8000m.cache")
    try:
        found, _ = machine.probe("--cap-mib", "9000", limit="8000m")
        assert found["allocated_mib"] == 0
    finally:
        first.kill()
        first.wait()
    deadline = time.monotonic() + 5
    while machine.probe("--cap-mib", "9000", limit="8000m")[0]["allocated_mib"] != 7424:
        assert time.monotonic() < deadline


def test_fault_limit_not_enforced(machine: Machine) -> None:
    machine.describe("limit-not-enforced")
    found, stderr = machine.probe("--cap-mib", "20480", limit="8000m")
    assert (found["refused"], found["allocated_mib"], found["total_mib"]) == (False, 20480, 8000)
    assert stderr == ""


def test_preload_without_a_driver_ends_every_process(machine: Machine, tmp_path: Path) -> None:
    shutil.copy(machine.libraries / "libvgpu.so", tmp_path / "alone.so")
    done = subprocess.run(
        ["/bin/true"],
        env={"LD_PRELOAD": str(tmp_path / "alone.so")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 127
    assert "error while loading shared libraries: libcuda.so.1" in done.stderr


def steady(banner: str) -> list[str]:
    """A banner without its clock, temperature and power."""
    lines = banner.splitlines()[1:]
    return [re.sub(r"\d+C    P0 +\d+W", "TTC    P0 WW", line) for line in lines]


@pytest.mark.parametrize(
    ("file", "limit"), [("nvidia-smi-host.txt", None), ("nvidia-smi-limited-8000.txt", "8000m")]
)
def test_banner_as_recorded(machine: Machine, file: str, limit: str | None) -> None:
    done = machine.smi(limit=limit, level=None, preload=limit is not None)
    recorded = (RECORDED / file).read_text()
    printed = "\n".join(line for line in recorded.splitlines() if not line.startswith("[HAMI"))
    assert steady(done.stdout) == steady(printed)
    assert same_process(done.stderr) == same_process(recorded)


def test_query_and_messages_as_recorded(machine: Machine) -> None:
    heading, values = (RECORDED / "nvidia-smi-query.csv").read_text().splitlines()
    fields = ",".join(re.sub(r" \[.*?\]", "", name) for name in heading.split(", "))
    assert machine.smi(f"--query-gpu={fields}", "--format=csv").stdout.splitlines() == [heading, values]
    messages = (RECORDED / "messages.txt").read_text().splitlines()
    told = [line for line in messages if line.startswith("nvidia-smi ")]
    assert len(told) == 3
    for line in told:
        command, status, text = re.split(r" {2,}", line, maxsplit=2)
        extra = ["--format=csv"] if "--query-gpu" in command else []
        done = machine.smi(*command.split()[1:], *extra)
        assert (done.returncode, done.stdout.strip()) == (int(status), text)


def test_no_card_is_said_in_the_drivers_words(machine: Machine) -> None:
    machine.describe("no-gpu")
    done = machine.smi()
    assert done.returncode == 9
    assert "couldn't communicate with the NVIDIA driver" in done.stdout


def test_nvcc_builds_both_probes(machine: Machine) -> None:
    lab = machine.folder / "lab.cu"
    lab.write_text("int main() { void *p; while (cudaMalloc(&p, 256 << 20) == cudaSuccess); }\n")
    for source, arguments in ((lab, []), (PROBE.with_name("nvcc_probe.cu"), ["256", "9000"])):
        probe = machine.folder / "probe"
        subprocess.run([str(parts.SOURCES / "nvcc"), "-o", str(probe), str(source)], check=True)
        command = [sys.executable, str(probe), *arguments]
        environment = machine.environment("8000m")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert lines[0] == "cudaMalloc refused after 7424 MiB allocated: out of memory"
        assert [json.loads(line)["allocated_mib"] for line in lines[1:]] == [7424] * len(arguments[:1])
    refused = subprocess.run([str(parts.SOURCES / "nvcc"), "/dev/null"], capture_output=True, check=False)
    assert refused.returncode == 1
