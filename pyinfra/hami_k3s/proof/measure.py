"""The whole measurement on one host, in the lab's order. It always gives evidence and always cleans up."""

from __future__ import annotations

import sys
from typing import Any

from pyinfra.api import Host

from hami_k3s import gate
from hami_k3s.isolation.claims import unmet
from hami_k3s.isolation.evidence import Card, Evidence, Pod
from hami_k3s.isolation.parse import read_event
from hami_k3s.isolation.plan import PlanError, SlicePlan, plan
from hami_k3s.proof import inside, pods, standing
from hami_k3s.proof.pods import Space
from hami_k3s.settings import Settings
from hami_k3s.waits import Look, until

SHARE = ("hami-share-a", "hami-share-b")
OVERASK = "hami-oversubscribe"

_open: list[Space] = []


class Measurement:
    """Collects parts of the evidence; a part that fails leaves its reason."""

    def __init__(self, host: Host, settings: Settings) -> None:
        self.host = host
        self.settings = settings
        self.parts: dict[str, Any] = {}
        self.errors: dict[str, str] = {}

    def evidence(self) -> Evidence:
        """What is known so far."""
        known = {name: value for name, value in self.parts.items() if value is not None}
        return Evidence(host=self.host.name, errors=dict(self.errors), **known)

    def take(self, found: tuple[dict[str, Any], dict[str, str]]) -> None:
        """Add parts and reasons."""
        self.parts |= found[0]
        self.errors |= found[1]

    def say(self, text: str) -> None:
        """One line of progress."""
        self.host.log(f"    {text}")


def measure(host: Host, settings: Settings) -> Evidence:
    """Everything that verify measures on this host. Pods are made only where the claims before them hold."""
    now = Measurement(host, settings)
    now.say("reading the host, the cluster and HAMi")
    now.take(standing.measure(host, settings))
    card = _card(now)
    reason = unmet("co-resident", now.evidence())
    if card is None or reason:
        return now.evidence()
    node = now.parts["node"]
    if left := pods.remove_leftovers(host, node):
        now.say(f"removed what an earlier run left: {left}")
    if not _plan(now, card):
        return now.evidence()
    space = pods.space(host, node)
    _open.append(space)
    try:
        _with_pods(now, space, card, now.parts["plan"])
    finally:
        removed = space.remove()
        if removed.ok:
            now.say("removed the pods")
        else:
            now.say(
                f"namespace {space.name} could not be removed, the next run will: {removed.stderr.strip()}"
            )
        _open.remove(space)
    return now.evidence()


def _card(now: Measurement) -> Card | None:
    cards = now.parts.get("cards")
    if not cards:
        return None
    now.parts["card_uuid"] = cards[0].uuid
    return cards[0]  # type: ignore[no-any-return]


def _plan(now: Measurement, card: Card) -> bool:
    registered = next(
        (one.memory_mib for one in now.parts["registration"].devices if one.uuid == card.uuid),
        card.memory_mib,
    )
    try:
        sizes = plan(
            registered,
            card.free_mib or 0,
            now.settings.verify_slice_mib,
            now.settings.verify_overask_mib,
            pods.granted_to_others(now.host, now.parts["node"], card.uuid),
        )
    except PlanError as error:
        for part in ("plan", "share_pods"):
            now.errors[part] = str(error)
        return False
    now.parts["plan"] = sizes
    now.say(
        f"card {card.name}, {card.memory_mib} MiB: two slices of {sizes.slice_mib} MiB, "
        f"an over-ask of {sizes.overask_mib} MiB ({sizes.beside_mib} are left beside the slices)"
    )
    return True


def _with_pods(now: Measurement, space: Space, card: Card, sizes: SlicePlan) -> None:
    driver = now.settings.verify_probe == "driver"
    image = now.settings.verify_image if driver else now.settings.verify_nvcc_image
    made = space.create()
    started = space.start(dict.fromkeys(SHARE, sizes.slice_mib), image, card.uuid) if made.ok else made
    if not started.ok:
        now.errors["share_pods"] = f"the pods could not be created: {started.stderr.strip()}"
        return
    seen = _until_running(now, space)
    if seen is None:
        now.errors["share_pods"] = "the API server stopped answering"
        return
    now.parts["share_pods"] = tuple(seen[name] for name in SHARE if name in seen)
    if unmet("refused", now.evidence()):
        return
    pod = SHARE[0]
    now.say(f"looking at the card from {pod}")
    now.take(inside.look(space, pod))
    now.say(f"filling the slice of {pod}, {sizes.chunk_mib} MiB at a time")
    probe, table, problem = inside.fill(space, pod, card.uuid, sizes, now.settings)
    now.parts |= {"probe": probe, "host_smi_text": table or None}
    if problem:
        now.errors["probe"] = problem
    now.say(f"asking for {sizes.overask_mib} MiB more than fits")
    now.parts["overask_pod"] = _overask(now, space, card, sizes, image)


def _until_running(now: Measurement, space: Space) -> dict[str, Pod] | None:
    """Wait for both pods. Their last state, also when they do not come up; None when the API stopped answering."""
    last: list[dict[str, Pod] | None] = [None]

    def look() -> Look:
        last[0] = space.look()
        if last[0] is None:
            return Look("wait", "the API server does not answer")
        phases = {name: pod.phase for name, pod in last[0].items()}
        if all(phases.get(name) == "Running" for name in SHARE):
            return Look("done", "both pods run")
        if any(phase in ("Failed", "Succeeded") for phase in phases.values()):
            return Look("failed", f"a pod ended: {phases}")
        reasons = space.waiting()
        words = [
            f"{name} {reasons.get(name) or _said(pod)}"
            for name, pod in last[0].items()
            if pod.phase != "Running"
        ]
        return Look("wait", ", ".join(words))

    until(now.host, "two pods", now.settings.verify_timeout, look, "verify_timeout", pause=1)
    return last[0]


def _said(pod: Pod) -> str:
    """Phase, and the last event in plain words."""
    return f"{pod.phase}: {read_event(pod.events[-1]).sentence}" if pod.events else pod.phase


def _overask(now: Measurement, space: Space, card: Card, sizes: SlicePlan, image: str) -> Pod | None:
    started = space.start({OVERASK: sizes.overask_mib}, image, card.uuid)
    if not started.ok:
        now.errors["overask_pod"] = f"the pod could not be created: {started.stderr.strip()}"
        return None
    last: list[Pod | None] = [None]

    def look() -> Look:
        last[0] = (space.look() or {}).get(OVERASK)
        if last[0] is None:
            return Look("wait", "the API server does not answer")
        if last[0].phase != "Pending":
            return Look("done", f"the pod is {last[0].phase}")
        if any(
            event.reason == "FilteringFailed" and read_event(event).code == "card-memory"
            for event in last[0].events
        ):
            return Look("done", "Pending for lack of card memory")
        return Look("wait", _said(last[0]))

    until(now.host, "over-ask", now.settings.verify_pending_timeout, look, "verify_pending_timeout", pause=1)
    return last[0]


def _interrupted() -> None:
    """Ctrl-C leaves the greenlets behind that would have removed the pods."""
    for space in _open:
        sys.stderr.write(f"interrupted: removing namespace {space.name} on {space.host.name}\n")
        sys.stderr.flush()
        space.remove()


gate.before_exit(_interrupted)
