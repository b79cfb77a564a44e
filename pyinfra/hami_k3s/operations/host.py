"""The host can be a GPU node, or every reason why not."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s.facts.host import Host as HostFact
from hami_k3s.preflight import Problem, problems
from hami_k3s.settings import Settings
from hami_k3s.waits import complain


@operation()
def gpu_host(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Stop this host, with every problem it has, before anything is changed on it.

    + settings: the host's settings

    **Example:**

    .. code:: python

        gpu_host(name="The host can be a GPU node", settings=settings)
    """
    found = problems(host.get_fact(HostFact, _sudo=False), settings)
    if not found:
        host.noop("the host can be a GPU node")
        return
    yield FunctionCommand(refuse, (found,), {})


def refuse(state: State, host: Host, found: list[Problem]) -> bool:
    """Print the problems and fail this host."""
    complain(host, f"{len(found)} problem{'s' if len(found) > 1 else ''}; nothing was changed on this host:")
    for problem in found:
        complain(host, f"- {problem}")
    return False
