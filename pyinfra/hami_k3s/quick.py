"""pyinfra spends most of its own time on two things whose results it does not need; with many hosts that is seconds.

For each operation of each host it asks `inspect` for the call stack, which looks up the module and the source line of
every frame; only file names and line numbers are used. And it resolves the type hints of its global arguments for every
operation and every fact. Where pyinfra does this in another way, nothing is replaced.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any, NamedTuple, cast

from pyinfra.api import arguments, facts, util


class Frame(NamedTuple):
    """What pyinfra uses of `inspect.getframeinfo`."""

    filename: str
    lineno: int


def frame_info(frame: FrameType) -> Frame:
    """Without the source."""
    return Frame(frame.f_code.co_filename, frame.f_lineno)


def stack() -> list[tuple[FrameType]]:
    """The callers' frames, the nearest first, as the first of each entry."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append((frame,))
        frame = frame.f_back
    return found


def install() -> None:
    """Replace both in this process."""
    if (
        getattr(util, "stack", None) is inspect.stack
        and getattr(util, "getframeinfo", None) is inspect.getframeinfo
    ):
        _set(util, stack=stack, getframeinfo=frame_info)
    slow = getattr(arguments, "all_global_arguments", None)
    if callable(slow) and slow is getattr(facts, "all_global_arguments", None):
        quick: Callable[[], Any] = cache(cast("Callable[..., Any]", slow))
        _set(arguments, all_global_arguments=quick)
        _set(facts, all_global_arguments=quick)


def _set(module: Any, **functions: Any) -> None:
    for name, function in functions.items():
        setattr(module, name, function)
