"""Which played program a container runs. Programs that have nothing to do just run until they are stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..cluster import Cluster
from .container import Played
from .images import Image

if TYPE_CHECKING:
    from .pod import PodWorker

Object = dict[str, Any]


class Context:
    """What a played program can see of its surroundings."""

    def __init__(
        self, cluster: Cluster, worker: "PodWorker", spec: Object, image: Image, adopted: bool
    ) -> None:
        self.cluster, self.worker, self.spec, self.image = cluster, worker, spec, image
        self.adopted = adopted  # taken over from before a restart of k3s: it has been running all along

    @property
    def pod(self) -> Object:
        return self.worker.pod

    @property
    def handler(self) -> str:
        return self.worker.handler()

    @property
    def arguments(self) -> dict[str, str]:
        """`--name=value` words of command and args."""
        found = {}
        for word in [*(self.spec.get("command") or []), *(self.spec.get("args") or [])]:
            name, _, value = str(word).partition("=")
            if name.startswith("-"):
                found[name.lstrip("-")] = value
        return found


Program = Callable[[Context, Played], Awaitable[int]]
REGISTERED: list[tuple[Callable[[Context], bool], Program]] = []


def register(matches: Callable[[Context], bool], program: Program) -> None:
    REGISTERED.append((matches, program))


async def idle(_context: Context, _held: Played) -> int:
    while True:
        await asyncio.sleep(3600)


def find_program(
    cluster: Cluster, worker: "PodWorker", spec: Object, image: Image, adopted: bool
) -> Callable[[Played], Awaitable[int]]:
    context = Context(cluster, worker, spec, image, adopted)
    program = next((p for matches, p in REGISTERED if matches(context)), idle)
    return lambda held: program(context, held)
