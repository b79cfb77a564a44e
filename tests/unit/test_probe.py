"""The probe that runs in a pod, against a small libcuda of our own: no card, no HAMi-core."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hami_k3s.isolation.parse import parse_probe
from hami_k3s.probes import source

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler for the small libcuda")
PROBE = source("driver_probe.py")

# Memory of LIMIT_MIB for every route but array; statuses from INIT_RC and CREATE_RC.
LIBCUDA = r"""
#include <stdlib.h>
#include <stddef.h>
#include <stdint.h>
#define MIB 1048576
static size_t used;
static long env(const char *name, long otherwise) { char *t = getenv(name); return t ? atol(t) : otherwise; }
static int take(size_t n) {
  if (n % (32 * (size_t)MIB)) return 1; /* a wrong size: every chunk of these tests is a multiple of 32 MiB */
  if (used + n > (size_t)env("LIMIT_MIB", 1 << 20) * MIB) return env("REFUSAL_RC", 2);
  used += n;
  return 0;
}
int cuInit(unsigned flags) { return env("INIT_RC", 0); }
int cuDeviceGet(int *d, int i) { *d = i; return i == 0 ? 0 : 101; }
int cuCtxCreate_v2(void **c, unsigned f, int d) { *c = &used; return env("CREATE_RC", 0); }
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = 1024 * (size_t)MIB; *t = 2048 * (size_t)MIB; return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { return take(n); }
int cuMemAllocPitch_v2(uint64_t *p, size_t *pitch, size_t w, size_t h, unsigned e) { *pitch = w; return take(w * h); }
int cuMemAllocAsync(uint64_t *p, size_t n, void *s) { return take(n); }
int cuStreamSynchronize(void *s) { return 0; }
int cuDeviceGetDefaultMemPool(void **p, int d) { *p = &used; return 0; }
int cuMemAllocFromPoolAsync(uint64_t *p, size_t n, void *pool, void *s) { return pool == &used ? take(n) : 1; }
struct prop { int type, handles, location, id; void *win; unsigned char flags[8]; };
int cuMemCreate(uint64_t *h, size_t n, const struct prop *p, unsigned long long f) {
  return sizeof *p == 32 && p->type == 1 && p->location == 1 && p->id == 0 ? take(n) : 1;
}
struct desc { size_t w, h; int format; unsigned channels; };
int cuArrayCreate_v2(void **a, const struct desc *d) {
  return d->format == 0x20 && (d->w * d->h * d->channels * 4) % (32 * (size_t)MIB) == 0 ? 0 : 1;
}
int cuMemAllocManaged(uint64_t *p, size_t n, unsigned flags) { return flags == 1 ? take(n) : 1; }
int cuGetErrorName(int rc, const char **t) { *t = rc == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER"; return 0; }
"""


@pytest.fixture(scope="module")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("libcuda")
    (directory / "cuda.c").write_text(LIBCUDA)
    library = directory / "libcuda.so.1"
    subprocess.run(
        [str(COMPILER), "-shared", "-fPIC", "-o", str(library), str(directory / "cuda.c")], check=True
    )
    return directory


def run(library: Path | None, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The probe as kubectl exec runs it: its source on stdin."""
    path = {"LD_LIBRARY_PATH": str(library)} if library else {}
    return subprocess.run(
        [sys.executable, "-", *arguments],
        input=PROBE,
        env={**os.environ, **path, **environment},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (line,) = done.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    return result


@needs_compiler
def test_refused_at_the_limit(libcuda: Path) -> None:
    done = run(libcuda, "--chunk-mib", "64", "--cap-mib", "1024", LIMIT_MIB="500")
    assert done.returncode == 0, done.stderr
    assert one_line(done) == {
        "measured": True,
        "route": "sync",
        "refused": True,
        "allocated_mib": 448,
        "rc": 2,
        "rc_name": "CUDA_ERROR_OUT_OF_MEMORY",
        "error": None,
        "free_before_mib": 1024,
        "total_mib": 2048,
        "chunk_mib": 64,
        "cap_mib": 1024,
    }
    parsed = parse_probe(done.stdout)
    assert (parsed.measured, parsed.refused, parsed.allocated_mib) == (True, True, 448)


@needs_compiler
def test_the_cap_is_reached_when_nothing_refuses(libcuda: Path) -> None:
    done = run(libcuda, "--chunk-mib", "256", "--cap-mib", "1000")
    result = one_line(done)
    assert (done.returncode, result["refused"], result["allocated_mib"], result["rc"]) == (0, False, 768, 0)


@needs_compiler
@pytest.mark.parametrize("route", ["sync", "pitch", "async", "pool", "vmm", "managed"])
def test_every_route_allocates_its_chunks_and_is_refused(libcuda: Path, route: str) -> None:
    done = run(
        libcuda, "--route", route, "--chunk-mib", "256", "--cap-mib", "1024", LIMIT_MIB="600", REFUSAL_RC="-1"
    )
    result = one_line(done)
    assert (result["route"], result["refused"], result["allocated_mib"], result["rc"]) == (
        route,
        True,
        512,
        -1,
    )


@needs_compiler
def test_the_array_route_reaches_the_cap(libcuda: Path) -> None:
    result = one_line(run(libcuda, "--route", "array", "--chunk-mib", "32", "--cap-mib", "96", LIMIT_MIB="1"))
    assert (result["refused"], result["allocated_mib"], result["rc"]) == (False, 96, 0)


@needs_compiler
def test_the_cap_counts_and_not_what_the_pod_sees_free(libcuda: Path) -> None:
    # Under HAMi-core the pod sees its slice's room: a probe that stopped there could never be refused.
    result = one_line(run(libcuda, "--route", "managed", "--cap-mib", "8192"))
    assert (result["free_before_mib"], result["refused"], result["allocated_mib"]) == (1024, False, 8192)


@needs_compiler
@pytest.mark.parametrize(
    ("environment", "rc", "words"),
    [
        ({"INIT_RC": "802"}, 802, "nvidia-fabricmanager"),
        ({"INIT_RC": "100"}, 100, "NVIDIA_VISIBLE_DEVICES"),
        ({"INIT_RC": "803"}, 803, "reboot the host"),
        ({"INIT_RC": "7"}, 7, "cuInit failed: CUDA_ERROR_OTHER"),
        ({"CREATE_RC": "2"}, 2, "cuCtxCreate_v2 failed: CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_what_could_not_be_measured_is_said_in_words(
    libcuda: Path, environment: dict[str, str], rc: int, words: str
) -> None:
    done = run(libcuda, "--cap-mib", "1024", **environment)
    result = one_line(done)
    assert (done.returncode, result["measured"], result["refused"], result["rc"]) == (3, False, False, rc)
    assert words in result["error"]


@needs_compiler
def test_no_such_card(libcuda: Path) -> None:
    assert "no such device index" in one_line(run(libcuda, "--cap-mib", "1024", "--device", "5"))["error"]


def test_no_driver_at_all() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        done = run(None, "--cap-mib", "1024")
        assert done.returncode == 3
        assert "does not run under the NVIDIA runtime" in one_line(done)["error"]
    else:
        pytest.skip("this machine has a driver")


def test_wrong_arguments_are_exit_status_2() -> None:
    assert run(None).returncode == 2
    assert run(None, "--cap-mib", "0").returncode == 2
    assert run(None, "--cap-mib", "1", "--route", "magic").returncode == 2
    refused = run(None, "--cap-mib", "1", "--until-stdin-closes")
    assert refused.returncode == 2
    assert "stdin is taken" in refused.stderr


@needs_compiler
def test_the_hold_prints_first_and_ends_when_stdin_closes(libcuda: Path) -> None:
    command = [sys.executable, "-c", PROBE, "--cap-mib", "256", "--hold", "60", "--until-stdin-closes"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libcuda)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert json.loads(process.stdout.readline())["allocated_mib"] == 256
        assert process.poll() is None  # it still holds
        process.stdin.close()
        assert process.wait(timeout=10) == 0


@needs_compiler
def test_the_hold_ends_by_time(libcuda: Path) -> None:
    started = time.monotonic()
    assert run(libcuda, "--cap-mib", "256", "--hold", "0.4").returncode == 0
    assert time.monotonic() - started >= 0.4


def test_the_probe_runs_on_old_pythons() -> None:
    # python:3.8 images still exist; what the compiler accepts for that version is the least we can check here.
    import ast

    ast.parse(PROBE, feature_version=(3, 8))
    imported = {
        alias.name
        for node in ast.walk(ast.parse(PROBE))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)


def test_the_labs_probe_is_shipped() -> None:
    text = source("nvcc_probe.cu")
    assert "cudaMalloc refused after" in text
    assert '\\"refused\\": %s' in text
