"""The operations of a deploy made to look and do nothing: each runs as far as its first command, as a dry run lets it.

What would be done is decided by the operations themselves, so nothing else can think differently of a host.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import cast

from pyinfra.api import Host
from pyinfra.api.command import PyinfraCommand

from hami_k3s.difference import NOTED, Difference


@dataclass(frozen=True)
class Found:
    """What an operation would act upon. `part`: the stage's name, `step`: the operation's in it."""

    part: str
    step: str
    difference: Difference


def only(host: Host, keep: Callable[[list[Found]], None]) -> None:
    """Every operation that this host has been given so far only looks, and hands what it found to `keep`.

    One that would act without saying upon what is one row of its own.
    """
    for op_hash in host.op_hash_order:
        data = host.state.ops[host][op_hash]
        name = " / ".join(sorted(host.state.get_op_meta(op_hash).names))
        data.command_generator = _looking(host.name, name, data.command_generator, keep)


def _looking(
    host: str,
    name: str,
    commands: Callable[[], Iterator[PyinfraCommand]],
    keep: Callable[[list[Found]], None],
) -> Callable[[], Iterator[PyinfraCommand]]:
    part, bar, step = name.partition(" | ")

    def look() -> Iterator[PyinfraCommand]:
        NOTED[host].clear()
        body = cast("Generator[PyinfraCommand]", commands())
        acts = next(body, None) is not None
        body.close()
        rows = list(NOTED[host])
        if acts and not rows:
            rows = [Difference("step", step or part, "to be done", "done")]
        keep([Found(part if bar else "", step or part, row) for row in rows])
        yield from ()

    return look
