"""What the nvcc stand-in writes as its output: the probe's steps through the driver API."""

import ctypes
import json
import os
import select
import sys
import time

MIB = 1 << 20
JSON = {"True": True, "False": False}[
    "@JSON@"
]  # whether the source prints a JSON line (this project's does, the lab's does not)
NAMES = {0: None, 2: "cudaErrorMemoryAllocation", 100: "cudaErrorNoDevice"}


def words(cuda, rc):
    text = ctypes.c_char_p()
    cuda.cuGetErrorString(rc, ctypes.byref(text))
    return (text.value or b"unknown error").decode()


def keep(seconds, until_stdin_closes):
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not until_stdin_closes:
            time.sleep(left)
        elif select.select([0], [], [], left)[0] and not os.read(0, 4096):
            return


def report(route, measured, rc, allocated=0, error=None, free=None, total=None, chunk=0, cap=0):
    print(
        json.dumps(
            {
                "measured": measured,
                "route": route,
                "refused": measured and rc != 0,
                "allocated_mib": allocated,
                "rc": rc,
                "rc_name": NAMES.get(rc, "cudaErrorUnknown"),
                "error": error,
                "free_before_mib": free,
                "total_mib": total,
                "chunk_mib": chunk,
                "cap_mib": cap,
            }
        ),
        flush=True,
    )


class Descriptor(ctypes.Structure):
    _fields_ = [
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
    ]


def steps(cuda, size):
    """What the runtime's calls become in the driver; the virtual-memory route is the driver's own call anyway."""
    out, bytes_, pool = ctypes.c_uint64(), ctypes.c_size_t(size), ctypes.c_void_p()
    where = ctypes.byref(out)
    cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0)
    pinned = (ctypes.c_int * 8)(1, 0, 1, 0)
    array = Descriptor(16384, size // (16384 * 16), 0x20, 4)
    rows = (ctypes.c_size_t(MIB), ctypes.c_size_t(size // MIB), 16)
    return {
        "sync": lambda: cuda.cuMemAlloc_v2(where, bytes_),
        "pitch": lambda: cuda.cuMemAllocPitch_v2(where, ctypes.byref(ctypes.c_size_t()), *rows),
        "async": lambda: cuda.cuMemAllocAsync(where, bytes_, None),
        "pool": lambda: cuda.cuMemAllocFromPoolAsync(where, bytes_, pool, None),
        "vmm": lambda: cuda.cuMemCreate(where, bytes_, pinned, ctypes.c_uint64(0)),
        "array": lambda: cuda.cuArrayCreate_v2(where, ctypes.byref(array)),
        "managed": lambda: cuda.cuMemAllocManaged(where, bytes_, 1),
    }


def main(arguments):
    chunk = int(arguments[0]) if arguments else 256
    cap = int(arguments[1]) if len(arguments) > 1 else 0 if JSON else 1 << 30
    words_ = arguments[3:]
    route = next((word.removeprefix("route=") for word in words_ if word.startswith("route=")), "sync")
    unknown = [word for word in words_ if word != "until-stdin-closes" and not word.startswith("route=")]
    if chunk < 1 or cap < 1 or unknown:
        usage = "usage: probe CHUNK_MIB CAP_MIB [HOLD_SECONDS [until-stdin-closes] [route=NAME]]"
        print(usage, file=sys.stderr)
        return 2
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    rc = (
        cuda.cuInit(0)
        or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        or cuda.cuCtxSetCurrent(context)
    )
    if rc:
        report(route, False, rc, error=words(cuda, rc), chunk=chunk, cap=cap)
        return 3
    free, total, allocated = ctypes.c_size_t(), ctypes.c_size_t(), 0
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    step = steps(cuda, chunk * MIB)[route]
    while allocated + chunk <= cap:
        rc = step()
        if rc:
            if route == "sync":
                print(f"cudaMalloc refused after {allocated} MiB allocated: {words(cuda, rc)}", flush=True)
            break
        allocated += chunk
    if JSON:
        report(route, True, rc, allocated, None, free.value // MIB, total.value // MIB, chunk, cap)
    keep(int(arguments[2]) if len(arguments) > 2 else 0, "until-stdin-closes" in words_)
    return 0


sys.exit(main(sys.argv[1:]))
