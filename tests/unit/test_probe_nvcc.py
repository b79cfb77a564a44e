"""The lab's probe, compiled against a CUDA runtime of a few lines: it says the same as the driver probe."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from hami_k3s.isolation.parse import parse_probe
from hami_k3s.probes import source

COMPILER = shutil.which("c++") or shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler for the lab's probe")

# LIMIT_MIB of memory, of which 100 MiB are the context's; INIT_RC is what the first call returns.
RUNTIME = r"""
#include <cstddef>
#include <cstdlib>
typedef int cudaError_t;
enum { cudaSuccess = 0 };
static size_t used = (size_t)100 << 20;
static long env(const char *name, long otherwise) { char *t = getenv(name); return t ? atol(t) : otherwise; }
static cudaError_t cudaMemGetInfo(size_t *f, size_t *t) {
  *f = (size_t)7482 << 20;
  *t = (size_t)8000 << 20;
  return env("INIT_RC", 0);
}
static cudaError_t take(size_t n) {
  if (n % (32 << 20)) return 1; /* a wrong size: every chunk of these tests is a multiple of 32 MiB */
  if (used + n > (size_t)env("LIMIT_MIB", 1 << 20) << 20) return 2;
  used += n;
  return 0;
}
static cudaError_t cudaMalloc(void **, size_t n) { return take(n); }
static cudaError_t cudaMallocPitch(void **, size_t *pitch, size_t w, size_t h) { return take((*pitch = w) * h); }
static cudaError_t cudaMallocManaged(void **, size_t n) { return take(n); }
typedef int cudaStream_t;
typedef int cudaMemPool_t;
static cudaError_t cudaMallocAsync(void **, size_t n, cudaStream_t) { return take(n); }
static cudaError_t cudaStreamSynchronize(cudaStream_t) { return 0; }
static cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int) { return *pool = 7, 0; }
static cudaError_t cudaMallocFromPoolAsync(void **, size_t n, cudaMemPool_t pool, cudaStream_t) {
  return pool == 7 ? take(n) : 1;
}
typedef int cudaArray_t;
typedef int cudaChannelFormatDesc;
enum { cudaChannelFormatKindFloat = 2 };
static cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int) { return (x + y + z + w) / 8; }
static cudaError_t cudaMallocArray(cudaArray_t *, const cudaChannelFormatDesc *bytes, size_t w, size_t h) {
  return take(*bytes * w * h);
}
static const char *cudaGetErrorString(cudaError_t e) { return e == 2 ? "out of memory" : "no \"device\""; }
static const char *cudaGetErrorName(cudaError_t e) { return e == 2 ? "cudaErrorMemoryAllocation" : "cudaErrorNoDevice"; }
"""


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("nvcc")
    (directory / "cuda_runtime.h").write_text(RUNTIME)
    (directory / "probe.cpp").write_text(source("nvcc_probe.cu"))
    command = [str(COMPILER), "-Wall", "-Werror", f"-I{directory}", "-o", "probe", "probe.cpp", "-ldl"]
    subprocess.run(command, cwd=directory, check=True)
    return directory / "probe"


def run(probe: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(probe), *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_refused_at_the_limit_with_the_labs_line(probe: Path) -> None:
    done = run(probe, "256", "8704", LIMIT_MIB="8000")
    assert done.returncode == 0
    assert done.stdout.startswith("cudaMalloc refused after 7680 MiB allocated: out of memory\n")
    result = parse_probe(done.stdout)
    assert (result.measured, result.refused, result.allocated_mib, result.rc) == (True, True, 7680, 2)
    assert (result.rc_name, result.route, result.error) == ("cudaErrorMemoryAllocation", "sync", None)
    assert (result.free_before_mib, result.total_mib, result.chunk_mib, result.cap_mib) == (
        7482,
        8000,
        256,
        8704,
    )


def test_the_cap_is_reached_when_nothing_refuses(probe: Path) -> None:
    result = parse_probe(run(probe, "256", "1000").stdout)
    assert (result.measured, result.refused, result.allocated_mib, result.rc) == (True, False, 768, 0)


@pytest.mark.parametrize("route", ["sync", "pitch", "async", "pool", "array", "managed"])
def test_every_route_allocates_its_chunks_and_is_refused(probe: Path, route: str) -> None:
    result = parse_probe(run(probe, "256", "1024", "0", f"route={route}", LIMIT_MIB="700").stdout)
    assert (result.route, result.refused, result.allocated_mib, result.rc) == (route, True, 512, 2)


def test_the_virtual_memory_route_is_the_drivers_own_call(probe: Path, tmp_path: Path) -> None:
    driver = """
    struct prop { int type, handles, location, id; void *win; unsigned char flags[8]; };
    int cuMemCreate(unsigned long long *h, unsigned long n, const struct prop *p, unsigned long long f) {
      static int calls;
      return sizeof *p == 32 && p->type == 1 && p->location == 1 && p->id == 0 && n == 256UL << 20 ? (++calls > 2 ? 2 : 0) : 1;
    }"""
    (tmp_path / "cuda.c").write_text(driver)
    library = ["gcc", "-shared", "-fPIC", "-o", str(tmp_path / "libcuda.so.1"), str(tmp_path / "cuda.c")]
    subprocess.run(library, check=True)
    done = run(probe, "256", "1024", "0", "route=vmm", LD_LIBRARY_PATH=str(tmp_path))
    result = parse_probe(done.stdout)
    assert (result.route, result.refused, result.allocated_mib, result.rc) == ("vmm", True, 512, 2)


def test_what_could_not_be_measured_is_said_in_words(probe: Path) -> None:
    done = run(probe, "256", "1024", INIT_RC="100")
    result = parse_probe(done.stdout)
    assert (done.returncode, result.measured, result.rc) == (3, False, 100)
    assert result.error == "no 'device'"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("256",),
        ("0", "1"),
        ("256", "1k"),
        ("1", "1", "-1"),
        ("1", "1", "1", "x"),
        ("1", "1", "1", "route=magic"),
    ],
)
def test_wrong_arguments_are_exit_status_2(probe: Path, arguments: tuple[str, ...]) -> None:
    done = run(probe, *arguments)
    assert done.returncode == 2
    assert "usage:" in done.stderr


def test_the_hold_ends_by_time_or_with_stdin(probe: Path) -> None:
    started = time.monotonic()
    assert run(probe, "256", "512", "1").returncode == 0
    assert time.monotonic() - started > 0.5
    with subprocess.Popen(
        [str(probe), "256", "512", "60", "until-stdin-closes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert parse_probe(process.stdout.readline()).allocated_mib == 512
        assert process.poll() is None  # it still holds
        process.stdin.close()
        assert process.wait(timeout=10) == 0
