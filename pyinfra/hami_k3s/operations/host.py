"""The host can be a GPU node, or every reason why not."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_state

from hami_k3s import cluster, trusted
from hami_k3s.driver_plan import MENDS
from hami_k3s.facts import together
from hami_k3s.facts.cluster import Cluster
from hami_k3s.facts.host import Host as HostFact
from hami_k3s.preflight import Judgement, Look, judge
from hami_k3s.preflight.network import ports, sources
from hami_k3s.reports import preflight as report
from hami_k3s.settings import Settings
from hami_k3s.waits import complain

# What this run has read of each host, so that hosts can be compared; by host name.
LOOKS: dict[str, Look] = {}
_fresh: set[str] = set()


def _read(settings: Settings) -> Look:
    wanted = sources(settings)
    # A fact's arguments are in pyinfra's debug log: proxies that may hold a password only where they are used, and then
    # without one.
    asked = {"ports": ports(settings), "wanted": wanted, "proxies": settings.proxies if wanted else {}}
    if cluster.is_agent(host):
        state = host.get_fact(HostFact, _sudo=False, **asked)
        inside = trusted.read(host, Cluster)
    else:
        state, inside = together.read(host, [(HostFact, asked), (Cluster, {})], _sudo=False)
    return Look(state, settings, inside if state.k3s_active else None, host.name)


def _judge(name: str, look: Look) -> Judgement:
    others = {other: one for other, one in LOOKS.items() if other != name}
    return judge(Look(look.state, look.settings, look.cluster, name, others))


def _look(settings: Settings) -> Look:
    """What `look` has just read, else a reading of its own."""
    if host.name in _fresh:
        _fresh.discard(host.name)
        return LOOKS[host.name]
    return _read(settings)


def _executing() -> bool:
    state: Any = ctx_state.get() if ctx_state.isset() else None  # type: ignore[no-untyped-call]
    return getattr(state, "current_stage", None) == StateStage.Execute


@operation()
def look(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Read everything the preflight judges, in one command. Changes nothing.

    + settings: the host's settings

    **Example:**

    .. code:: python

        look(name="Look at the host", settings=settings)
    """
    LOOKS[host.name] = _read(settings)
    _fresh.add(host.name)
    host.noop("read")
    yield from ()


@operation()
def gpu_host(settings: Settings, strict: bool = False) -> Generator[PyinfraCommand]:
    """
    Stop this host, with every problem it has, before anything is changed on it. Warnings are shown and stop nothing.

    + settings: the host's settings
    + strict: with `driver_install`, do not pass over what the installation of the driver mends

    **Example:**

    .. code:: python

        gpu_host(name="The host can be a GPU node", settings=settings)
    """
    found = _judge(host.name, _look(settings))
    if settings.driver_install and not strict:
        found = replace(found, problems=tuple(one for one in found.problems if one.code not in MENDS))
    if found.blocking:
        yield FunctionCommand(refuse, (found, strict), {})
        return
    if _executing():
        for problem in found.problems:
            ignored = " (blocks; preflight_ignore names it)" if problem.ignored else ""
            host.log_styled(f"    warning: {problem}{ignored}", fg="yellow")
    host.noop("the host can be a GPU node")


def refuse(state: State, host: Host, found: Judgement, after_driver: bool = False) -> bool:
    """Print the problems and fail this host."""
    many = len(found.problems)
    done = "after the driver's installation" if after_driver else "nothing was changed on this host"
    complain(host, f"{many} problem{'s' if many > 1 else ''}; {done}:")
    for problem in found.problems:
        complain(host, f"- {'' if problem.severity == 'blocks' else 'warning: '}{problem}")
    return False


@operation(is_idempotent=False)
def preflight(settings: Settings) -> Generator[PyinfraCommand]:
    """
    Show every problem of this host as a table, and fail it when one blocks. Changes nothing.

    + settings: the host's settings

    **Example:**

    .. code:: python

        preflight(name="Every problem at once", settings=settings)
    """
    found = _judge(host.name, _look(settings))
    yield FunctionCommand(show, (found, settings), {})


def show(state: State, host: Host, found: Judgement, settings: Settings) -> bool:
    """Print the host's table and note it for the fleet's summary. True when nothing blocks."""
    for line in report.table(host.name, found).splitlines():
        logger.info(line)
    report.RUN.add(host.name, found, settings.report_folder)
    return not found.blocking
