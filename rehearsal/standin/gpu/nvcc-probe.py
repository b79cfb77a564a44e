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


def report(measured, rc, allocated=0, error=None, free=None, total=None, chunk=0, cap=0):
    print(
        json.dumps(
            {
                "measured": measured,
                "route": "runtime",
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


def main(arguments):
    chunk = int(arguments[0]) if arguments else 256
    cap = int(arguments[1]) if len(arguments) > 1 else 0 if JSON else 1 << 30
    if chunk < 1 or cap < 1:
        print("usage: probe CHUNK_MIB CAP_MIB [HOLD_SECONDS [until-stdin-closes]]", file=sys.stderr)
        return 2
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    rc = (
        cuda.cuInit(0)
        or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        or cuda.cuCtxSetCurrent(context)
    )
    if rc:
        report(False, rc, error=words(cuda, rc), chunk=chunk, cap=cap)
        return 3
    free, total, allocated = ctypes.c_size_t(), ctypes.c_size_t(), 0
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    while allocated + chunk <= cap:
        rc = cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(chunk * MIB))
        if rc:
            print(f"cudaMalloc refused after {allocated} MiB allocated: {words(cuda, rc)}", flush=True)
            break
        allocated += chunk
    if JSON:
        report(True, rc, allocated, None, free.value // MIB, total.value // MIB, chunk, cap)
    keep(int(arguments[2]) if len(arguments) > 2 else 0, arguments[3:] == ["until-stdin-closes"])
    return 0


sys.exit(main(sys.argv[1:]))
