"""NVIDIA's driver, where a host asks for it."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import hold, remote, transient
from hami_k3s.driver_plan import MENDS, plan
from hami_k3s.facts.host import Host as HostFact
from hami_k3s.facts.nvidia import Nvidia, NvidiaState
from hami_k3s.operations import lock
from hami_k3s.preflight import Judgement, judge
from hami_k3s.preflight import Look as HostLook
from hami_k3s.releases.origin import Origin
from hami_k3s.settings import Settings
from hami_k3s.templating import render
from hami_k3s.waits import Look, fail, until

LIMIT = "driver_timeout"
DUE = "the driver is installed and needs a reboot: set driver_reboot: true, or reboot the host yourself, then run again"


def _wanted(found: Judgement) -> bool:
    return any(one.code in MENDS for one in found.problems)


@operation()
def packages(settings: Settings, origin: Origin | None = None) -> Generator[PyinfraCommand]:
    """
    The driver's packages of the pinned branch, where the card has no driver that works. One that works is left alone.

    + settings: the host's settings
    + origin: proxies

    **Example:**

    .. code:: python

        driver.packages(name="The driver's packages", settings=settings)
    """
    look = HostLook(host.get_fact(HostFact, _sudo=False), settings, name=host.name)
    found = judge(look)
    if not _wanted(found):
        host.noop(f"driver {look.state.nvidia.module} works")
        return
    if {one.code for one in found.problems if one.code in MENDS} == {"driver-mismatch"}:
        host.noop("the driver's packages are there; the loaded module is older")
        return
    todo = plan(look)
    if todo.refused:
        yield FunctionCommand(fail, (f"the driver cannot be installed: {todo.refused}",), {})
        return
    script = render(
        "scripts/driver-install.sh",
        root="",
        repository=todo.repository,
        key=todo.key,
        fingerprint=todo.fingerprint,
        packages=todo.packages,
        branch=settings.driver_branch,
        limit=settings.driver_timeout,
    )
    prelude = (origin or Origin()).prelude
    what = f"NVIDIA driver, branch {settings.driver_branch}"
    work = ("driver", what, prelude + script, settings.driver_timeout, LIMIT)
    yield FunctionCommand(transient.work, work, {})


@operation()
def loaded(settings: Settings) -> Generator[PyinfraCommand]:
    """
    The driver answers; after a reboot where it needs one and `driver_reboot` allows it.

    + settings: the host's settings

    **Example:**

    .. code:: python

        driver.loaded(name="The driver answers", settings=settings)
    """
    if works(host.get_fact(Nvidia)):
        host.noop("the driver answers")
        return
    if not settings.driver_reboot:
        yield FunctionCommand(fail, (DUE,), {})
        return
    yield FunctionCommand(reboot, (settings.driver_reboot_timeout, settings.preflight_lock_timeout), {})
    yield FunctionCommand(answers, (), {})


def works(state: NvidiaState) -> bool:
    """nvidia-smi lists a card."""
    return bool(state.cards)


def reboot(state: State, host: Host, limit: int, lock_limit: int) -> bool:
    """Reboot and wait for the new boot. pyinfra's own compares uptimes, which a container shares with its machine."""
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = remote.run(host, boot_id).stdout.strip()
    # Detached, so that the command ends before the connection does.
    asked = remote.run(host, "(sleep 1 && systemctl reboot) </dev/null >/dev/null 2>&1 &")
    if not before or not asked.ok:
        return fail(state, host, f"the host could not be rebooted: {asked.stderr}")
    host.log("    rebooting")
    hold.forget(host)

    def look() -> Look:
        host.disconnect()
        host.connect(show_errors=False)
        if not host.connected:
            return Look("wait", "the host does not answer")
        remote.tune(host)
        now = remote.run(host, boot_id, timeout=10).stdout.strip()
        return (
            Look("done", "it answers again")
            if now and now != before
            else Look("wait", "it has not gone down yet")
        )

    back = until(host, "Reboot", limit, look, "driver_reboot_timeout", away=True)
    return back and lock.wait(state, host, lock_limit)


def answers(state: State, host: Host) -> bool:
    """After the reboot: does nvidia-smi list a card now?"""
    now = host.get_fact(Nvidia)
    if works(now):
        return True
    return fail(state, host, f"after the reboot nvidia-smi still says: {now.message}")
