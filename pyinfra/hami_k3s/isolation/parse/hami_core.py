"""Lines that HAMi-core and the dynamic loader write to the stderr of processes in a pod."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The line number moves between releases, so it is not part of the match.
_OUT_OF_MEMORY = re.compile(
    r"\[HAMI-core ERROR \(pid:\d+ thread=\d+ allocator\.c:\d+\)\]: Device (\d+) OOM (\d+) / (\d+)"
)
_PRELOAD_ERROR = re.compile(r"^.*cannot be preloaded.*$", re.MULTILINE)
# libvgpu.so needs libcuda.so.1: without the driver's libraries in the pod every process dies like this.
_LIBRARY_ERROR = re.compile(r"^.*error while loading shared libraries.*$", re.MULTILINE)
_ANY_LINE = re.compile(r"^\[HAMI-core [^\n]*\n?", re.MULTILINE)


@dataclass(frozen=True)
class OutOfMemory:
    """HAMi-core refused: `would_be` bytes in use on `device` would have passed `limit` bytes."""

    device: int
    would_be: int
    limit: int
    line: str


def find_out_of_memory(stderr: str) -> OutOfMemory | None:
    """The last refusal in the text, or None: the last one is what ended the probe."""
    matches = list(_OUT_OF_MEMORY.finditer(stderr))
    if not matches:
        return None
    match = matches[-1]
    device, would_be, limit = (int(group) for group in match.groups())
    return OutOfMemory(device, would_be, limit, match.group(0))


def find_preload_error(stderr: str) -> str | None:
    """The loader's complaint about a library of /etc/ld.so.preload, or None."""
    match = _PRELOAD_ERROR.search(stderr) or _LIBRARY_ERROR.search(stderr)
    return match.group(0).strip() if match else None


def without_hami_core(text: str) -> str:
    """The text without HAMi-core's own lines, for output in which both streams were mixed."""
    return _ANY_LINE.sub("", text)
