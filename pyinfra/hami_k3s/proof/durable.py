"""Restarts k3s and reloads systemd, once for the host, and looks at a pod from before and one from after on each card."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from hami_k3s import cluster
from hami_k3s.isolation.claims import unmet
from hami_k3s.isolation.evidence import Card, Durable, Pod
from hami_k3s.proof import inside, program, standing
from hami_k3s.proof.measurement import Measurement, until_running
from hami_k3s.proof.pods import Space, Wanted
from hami_k3s.remote import run

BEFORE, AFTER = "hami-durable-before", "hami-durable-after"


@dataclass
class _Card:
    now: Measurement
    card: Card
    space: Space
    before: Pod


def prove(
    runs: list[tuple[Measurement, Card]], keep: Callable[[Measurement], AbstractContextManager[Space]]
) -> None:
    """Add the part `durable` to every run whose claim `refused` holds."""
    good = [(now, card) for now, card in runs if not unmet("durable", now.evidence())]
    for now, _ in runs:
        now.errors["durable"] = "an earlier claim of this card does not hold"
    if not good:
        return
    with ExitStack() as stack:
        started = [_start(now, card, stack.enter_context(keep(now))) for now, card in good]
        cards = [one for one in started if one is not None]
        if not cards:
            return
        first = cards[0].now
        first.say("restarting k3s and reloading systemd (verify_durable); running pods must not notice")
        begun = time.monotonic()
        restart = f"systemctl daemon-reload && systemctl restart {cluster.unit(first.host)}.service"
        result = run(first.host, restart, timeout=180)
        refused = f"k3s could not be restarted: {result.stderr.strip()}"
        lost = _back(first) if result.ok else (refused,)
        seconds = time.monotonic() - begun
        for one in cards:
            one.now.errors.pop("durable", None)
            one.now.parts["durable"] = (
                Durable(one.before, None, lost=lost, seconds=seconds) if lost else _again(one, seconds)
            )


def _back(now: Measurement) -> tuple[str, ...]:
    return standing.hold(now.host, now.settings, now.settings.k3s_ready_timeout, "k3s_ready_timeout")


def _start(now: Measurement, card: Card, space: Space) -> _Card | None:
    _, image = program.of(now.settings)
    made = space.create()
    wanted = [Wanted(BEFORE, now.parts["plan"].slice_mib)]
    started = space.start(wanted, image, card.uuid) if made.ok else made
    seen = until_running(now, space, (BEFORE,)) if started.ok else None
    pod = (seen or {}).get(BEFORE)
    if pod is None or pod.phase != "Running":
        now.errors["durable"] = (
            f"no pod to look at: {started.stderr.strip() or (pod and pod.phase) or 'API silent'}"
        )
        return None
    return _Card(now, card, space, pod)


def _again(one: _Card, seconds: float) -> Durable:
    now, space, planned = one.now, one.space, one.now.parts["plan"]
    probe, image = program.of(now.settings)
    now.say("looking again: a pod from before the restart, and a new one")
    space.start([Wanted(AFTER, planned.slice_mib)], image, one.card.uuid)
    seen = until_running(now, space, (BEFORE, AFTER)) or {}
    old, old_trouble = inside.look(space, BEFORE)
    new, new_trouble = inside.look(space, AFTER)
    # The command itself could be run, so nvidia-smi's own trouble is the pod's.
    blind = [
        f"{name}: {trouble['view']}"
        for name, parts, trouble in ((BEFORE, old, old_trouble), (AFTER, new, new_trouble))
        if "mechanism" in parts and "view" in trouble
    ]
    probe.install(space, [BEFORE, AFTER])
    runs, _, _ = inside.fill(space, [BEFORE, AFTER], one.card.uuid, planned, probe)
    return Durable(
        survivor_before=one.before,
        survivor=seen.get(BEFORE),
        survivor_view=old.get("view"),
        survivor_probe=runs[0] if runs else None,
        newcomer=seen.get(AFTER),
        newcomer_view=new.get("view"),
        newcomer_mechanism=new.get("mechanism"),
        newcomer_probe=runs[1] if runs else None,
        blind=tuple(blind),
        seconds=seconds,
    )
