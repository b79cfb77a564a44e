"""Waiting with a limit: progress on the terminal while it lasts, the reason and the last log lines when it ends."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pyinfra.api import Host, State

from hami_k3s import remote

EVERY = 5  # seconds between two progress lines
# What was said to be wrong with each host so far, by its name: the trail of the run keeps it.
TOLD: defaultdict[str, list[str]] = defaultdict(list)


@dataclass(frozen=True)
class Look:
    """One look at the host: is it done, has it failed for good, and what is there to see."""

    state: Literal["done", "wait", "failed"]
    seen: str


def until(
    host: Host,
    what: str,
    limit: float,
    look: Callable[[], Look],
    setting: str,
    evidence: Callable[[], str] | None = None,
    pause: float = 2,
    away: bool = False,
) -> bool:
    """Look until done, failed, or `limit` seconds are over. True when done.

    On failure it prints what was seen last, `evidence()` (log lines of the host) and the setting of the limit.
    A host that this run has lost ends the wait, unless it may be `away` meanwhile.
    """
    start = time.monotonic()
    told = start
    while True:
        now = look()
        waited = time.monotonic() - start
        if now.state == "done":
            if waited > EVERY:
                host.log(f"    {what}: {now.seen} after {waited:.0f} s")
            return True
        if not away and (lost := remote.gone(host)):
            complain(host, f"{what}: {lost}")
            return False
        if now.state == "failed" or waited >= limit:
            reason = (
                now.seen if now.state == "failed" else f"not reached in {limit:.0f} s; last seen: {now.seen}"
            )
            complain(host, f"{what}: {reason}")
            if evidence is not None:
                complain(host, evidence())
            if now.state == "wait":
                complain(host, f"{setting} is the limit of this wait, in seconds")
            return False
        if time.monotonic() - told >= EVERY:
            told = time.monotonic()
            host.log(f"    {what}: {waited:.0f} s of {limit:.0f} s, {now.seen}")
        # Most things are done soon; a long wait must not keep the host busy, and ends at most an eighth late.
        time.sleep(min(max(0.2, waited / 8), pause))


def complain(host: Host, text: str) -> None:
    """Red lines under the host's name."""
    for line in text.splitlines():
        TOLD[host.name].append(line)
        host.log_styled(f"    {line}", fg="red")


def fail(state: State, host: Host, message: str) -> bool:
    """Fail this host alone, with a message."""
    complain(host, message)
    return False
