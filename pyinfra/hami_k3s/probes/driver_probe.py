#!/usr/bin/env python3
"""Allocates card memory step by step through the driver API until it is refused, or a cap is reached.

    kubectl exec -i POD -- python3 - --chunk-mib 256 --cap-mib 8704 < driver_probe.py

Prints one JSON line on stdout as soon as the filling ends:

    {"measured": true, "route": "sync", "refused": true, "allocated_mib": 7424, "rc": 2, ...}

and exits with 0 when it could measure (refused or not), 3 when it could not (`error` says why in words), 2 on a
wrong argument. Needs only Python 3.8 and the driver's libcuda.so.1. One route a process: a refusal must not be
taken for that of an earlier route.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], int]
    Route = Callable[["Driver", c_int, int], Step]

MIB = 1024 * 1024
MEASURED, NOT_MEASURED = 0, 3

# What cuInit and its like return where no memory can be had, in words that say what to do.
WORDS = {
    3: "the driver is not initialised (CUDA_ERROR_NOT_INITIALIZED)",
    34: "libcuda.so.1 is a stub, not the driver's: the NVIDIA runtime did not mount its own",
    35: "the driver is older than this CUDA needs",
    46: "the device is not available: is it in exclusive or prohibited compute mode?",
    100: "the driver sees no device (CUDA_ERROR_NO_DEVICE): NVIDIA_VISIBLE_DEVICES names none, or /dev/nvidia* is missing",
    101: "no such device index",
    802: "the system is not ready (CUDA_ERROR_SYSTEM_NOT_READY): start nvidia-fabricmanager on an NVSwitch host",
    803: "libcuda.so.1 and the kernel module are of different versions: reboot the host after a driver upgrade",
    804: "forward compatibility is not supported on this card: remove the cuda-compat package from the image",
    999: "unknown error (CUDA_ERROR_UNKNOWN): look at dmesg for Xid errors, or reload nvidia_uvm",
}


class NotMeasuredError(Exception):
    """No step could be tried; `rc` is the driver's code, None when there is no driver."""

    def __init__(self, words: str, rc: int | None = None) -> None:
        super().__init__(words)
        self.rc = rc


class Driver:
    """libcuda with its status codes checked by the caller: `call` returns the code, `need` insists on 0."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as problem:
            raise NotMeasuredError(
                f"libcuda.so.1 cannot be loaded ({problem}): the container does not run under the NVIDIA runtime"
            ) from None

    def has(self, name: str) -> bool:
        return hasattr(self.library, name)

    def call(self, name: str, *arguments: object) -> int:
        try:
            function = getattr(self.library, name)
        except AttributeError:
            raise NotMeasuredError(f"this driver has no {name}") from None
        function.restype = c_int
        return int(function(*arguments))

    def need(self, name: str, *arguments: object) -> None:
        rc = self.call(name, *arguments)
        if rc != 0:
            raise NotMeasuredError(f"{name} failed: {WORDS.get(rc) or self.name(rc)}", rc)

    def name(self, rc: int) -> str:
        text = ctypes.c_char_p()
        if self.has("cuGetErrorName") and self.call("cuGetErrorName", c_int(rc), byref(text)) == 0:
            return (text.value or b"").decode()
        return f"code {rc}"


def open_device(driver: Driver, index: int) -> c_int:
    """A context on the device; returns its handle. The context itself is charged to the slice."""
    driver.need("cuInit", c_uint(0))
    device = c_int()
    driver.need("cuDeviceGet", byref(device), c_int(index))
    context = c_void_p()
    if driver.has("cuCtxCreate_v2"):
        driver.need("cuCtxCreate_v2", byref(context), c_uint(0), device)
    else:
        driver.need("cuDevicePrimaryCtxRetain", byref(context), device)
        driver.need("cuCtxSetCurrent", context)
    return device


def memory(driver: Driver) -> tuple[int | None, int | None]:
    """(free, total) in MiB as this process sees them, or (None, None)."""
    free, total = c_size_t(), c_size_t()
    if driver.has("cuMemGetInfo_v2") and driver.call("cuMemGetInfo_v2", byref(free), byref(total)) == 0:
        return free.value // MIB, total.value // MIB
    return None, None


# Each route returns a function that allocates one chunk of `size` bytes and returns the driver's code. What it
# allocates is never freed: the process holds it until it ends.


def route_sync(driver: Driver, device: c_int, size: int) -> Step:
    return lambda: driver.call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(size))


def route_pitch(driver: Driver, device: c_int, size: int) -> Step:
    # Rows of 1 MiB are a multiple of every pitch alignment, so nothing is added to the chunk.
    def step() -> int:
        row, rows = c_size_t(MIB), c_size_t(size // MIB)
        return driver.call("cuMemAllocPitch_v2", byref(c_uint64()), byref(c_size_t()), row, rows, c_uint(16))

    return step


def route_async(driver: Driver, device: c_int, size: int) -> Step:
    def step() -> int:
        rc = driver.call("cuMemAllocAsync", byref(c_uint64()), c_size_t(size), None)
        return rc or driver.call("cuStreamSynchronize", None)

    return step


def route_pool(driver: Driver, device: c_int, size: int) -> Step:
    pool = c_void_p()
    driver.need("cuDeviceGetDefaultMemPool", byref(pool), device)

    def step() -> int:
        rc = driver.call("cuMemAllocFromPoolAsync", byref(c_uint64()), c_size_t(size), pool, None)
        return rc or driver.call("cuStreamSynchronize", None)

    return step


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory (1) on a device (location type 1)."""

    _fields_ = [
        ("type", c_int),
        ("requested_handle_types", c_int),
        ("location_type", c_int),
        ("location_id", c_int),
        ("win32_handle_metadata", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


def route_vmm(driver: Driver, device: c_int, size: int) -> Step:
    properties = AllocationProperties(type=1, location_type=1, location_id=device.value)

    flags = c_uint64(0)
    return lambda: driver.call("cuMemCreate", byref(c_uint64()), c_size_t(size), byref(properties), flags)


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR: format 0x20 is a 32-bit float."""

    _fields_ = [
        ("width", c_size_t),
        ("height", c_size_t),
        ("format", c_int),
        ("channels", c_uint),
    ]


def route_array(driver: Driver, device: c_int, size: int) -> Step:
    # 16384 elements of 16 bytes are rows of 256 KiB: both sides stay under the card's limits.
    descriptor = ArrayDescriptor(width=16384, height=size // (16384 * 16), format=0x20, channels=4)

    return lambda: driver.call("cuArrayCreate_v2", byref(c_void_p()), byref(descriptor))


def route_managed(driver: Driver, device: c_int, size: int) -> Step:
    # Past the card this would spill into the host's memory instead of being refused. Only the caller knows what
    # the card has free (in here HAMi-core shows the slice), so the cap must be below that; the plan's is.
    return lambda: driver.call("cuMemAllocManaged", byref(c_uint64()), c_size_t(size), c_uint(1))


ROUTES: dict[str, Route] = {
    "sync": route_sync,
    "pitch": route_pitch,
    "async": route_async,
    "pool": route_pool,
    "vmm": route_vmm,
    "array": route_array,
    "managed": route_managed,
}


def fill(options: argparse.Namespace) -> dict[str, object]:
    """Allocate until refused or at the cap; returns the result as it is printed."""
    result: dict[str, object] = {
        "measured": False,
        "route": options.route,
        "refused": False,
        "allocated_mib": 0,
        "rc": None,
        "rc_name": None,
        "error": None,
        "free_before_mib": None,
        "total_mib": None,
        "chunk_mib": options.chunk_mib,
        "cap_mib": options.cap_mib,
    }
    try:
        driver = Driver()
        device = open_device(driver, options.device)
        free, total = memory(driver)
        result.update(free_before_mib=free, total_mib=total)
        step = ROUTES[options.route](driver, device, options.chunk_mib * MIB)
        rc = allocated = 0
        while rc == 0 and allocated + options.chunk_mib <= options.cap_mib:
            rc = step()
            allocated += 0 if rc else options.chunk_mib
        result.update(measured=True, refused=rc != 0, rc=rc, allocated_mib=allocated)
        if rc != 0:
            result["rc_name"] = driver.name(rc)
    except NotMeasuredError as problem:
        result.update(error=str(problem), rc=problem.rc)
    return result


def hold(seconds: float, until_stdin_closes: bool) -> None:
    """Keep the memory: for so long, or until stdin is closed."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not until_stdin_closes:
            time.sleep(left)
        elif select.select([0], [], [], left)[0] and not os.read(0, 4096):
            return


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(prog="driver_probe.py", description=__doc__.splitlines()[0])
    parser.add_argument("--chunk-mib", type=positive, default=256, help="size of one step (default 256)")
    parser.add_argument("--cap-mib", type=positive, required=True, help="stop here when nothing refuses")
    parser.add_argument(
        "--route", choices=sorted(ROUTES), default="sync", help="how to allocate (default sync)"
    )
    parser.add_argument(
        "--device", type=int, default=0, help="index of the card in the container (default 0)"
    )
    parser.add_argument("--hold", type=float, default=0, metavar="SECONDS", help="keep the memory so long")
    parser.add_argument(
        "--until-stdin-closes",
        action="store_true",
        help="end the hold when stdin is closed (not when the probe itself is sent through stdin)",
    )
    options = parser.parse_args()
    if options.until_stdin_closes and sys.argv[0] == "-":
        parser.error(
            "--until-stdin-closes: stdin is taken by the probe's own source; send it as a file or with -c"
        )
    result = fill(options)
    print(json.dumps(result), flush=True)
    if result["measured"]:
        hold(options.hold, options.until_stdin_closes)
    return MEASURED if result["measured"] else NOT_MEASURED


if __name__ == "__main__":
    sys.exit(main())
