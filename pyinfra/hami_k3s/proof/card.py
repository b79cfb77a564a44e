"""The proof of one card, in the lab's order: two pods, their slices, the control, the over-ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hami_k3s.isolation.claims import no_request, unmet
from hami_k3s.isolation.evidence import Card, Pod
from hami_k3s.isolation.parse import read_event
from hami_k3s.isolation.plan import PlanError, SlicePlan, plan
from hami_k3s.proof import inside, pods, program
from hami_k3s.proof.measurement import Measurement, until_running, wait_for_pod
from hami_k3s.proof.pods import Space, Wanted

SHARE = ("hami-share-a", "hami-share-b")
OVERASK, CONTROL, PLAIN = "hami-oversubscribe", "hami-control", "hami-no-request"
# HAMi gives this much to the pod that opts out. What it allocates beyond is covered by our own two slices, which are
# empty at that moment.
CONTROL_MIB = 64


# These pods were started together with the two that were waited for with the whole limit.
SHORTLY = 60
AT_ONCE = 3  # the others did not come up, for a reason that is most likely this one's too


def sizes(now: Measurement, card: Card) -> None:
    """The plan for this card, or the reason why it cannot be proved."""
    registration = now.parts.get("registration")
    devices = registration.devices if registration else ()
    registered = next((one.memory_mib for one in devices if one.uuid == card.uuid), card.memory_mib)
    try:
        now.parts["plan"] = plan(
            registered,
            card.free_mib or 0,
            now.settings.verify_slice_mib,
            now.settings.verify_overask_mib,
            pods.granted_to_others(now.host, now.parts["node"], card.uuid),
        )
    except PlanError as error:
        now.errors |= dict.fromkeys(("plan", "share_pods", "no_request"), str(error))


def prove(now: Measurement, space: Space, card: Card, planned: SlicePlan) -> None:
    """Everything about one card. The caller removes the space."""
    probe, image = program.of(now.settings)
    now.say(
        f"{'' if now.mark else 'card '}{card.name}, {card.memory_mib} MiB: two slices of {planned.slice_mib} MiB, "
        f"an over-ask of {planned.overask_mib} MiB ({planned.beside_mib} are left beside the slices)"
    )
    wanted = [Wanted(name, planned.slice_mib) for name in SHARE]
    wanted.append(Wanted(CONTROL, CONTROL_MIB, {"cuda": {"CUDA_DISABLE_CONTROL": "true"}}))
    if now.sees:
        # A CUDA image asks for all cards itself; empty is as if it did not.
        plain = {} if probe.kind == "driver" else {"NVIDIA_VISIBLE_DEVICES": ""}
        everything = {"NVIDIA_VISIBLE_DEVICES": "all"}
        wanted.append(Wanted(PLAIN, 0, {no_request.PLAIN: plain, no_request.GREEDY: everything}))
    made = space.create()
    started = space.start(wanted, image, card.uuid) if made.ok else made
    if not started.ok:
        for part in ("share_pods", "no_request"):
            now.errors[part] = f"the pods could not be created: {started.stderr.strip()}"
        return
    _share(now, space, until_running(now, space, SHARE))
    if now.sees:
        _without_request(now, space)
    if not unmet("mechanism", now.evidence()):
        _slices(now, space, card, planned, probe)
        _control(now, space, card, planned, probe)
        _overask(now, space, card, planned, image)
    _end(now, space)


def _share(now: Measurement, space: Space, seen: dict[str, Pod] | None) -> None:
    """Both pods as they are now. A pod that is gone is said to be Deleted."""
    before = {pod.name: pod for pod in now.parts.get("share_pods") or ()}
    if seen is None:
        now.parts["share_pods"] = None
        now.errors["share_pods"] = "the API server stopped answering"
        return
    missing = {name: replace(pod, phase="Deleted") for name, pod in before.items() if name not in seen}
    now.parts["share_pods"] = tuple(
        {**seen, **missing}[name] for name in SHARE if name in {**seen, **missing}
    )


def _runs(now: Measurement) -> bool:
    pods = now.parts.get("share_pods") or ()
    return len(pods) == len(SHARE) and all(pod.phase == "Running" for pod in pods)


def _without_request(now: Measurement, space: Space) -> None:
    if until_running(now, space, (PLAIN,), SHORTLY if _runs(now) else AT_ONCE) is None:
        now.errors["no_request"] = "the API server stopped answering"
        return
    now.put("no_request", *inside.sight(space, PLAIN, (no_request.PLAIN, no_request.GREEDY)))


def _slices(now: Measurement, space: Space, card: Card, planned: SlicePlan, probe: program.Program) -> None:
    first, second = SHARE
    now.say(f"looking at the card from {first}")
    now.take(inside.look(space, first))
    if unmet("refused", now.evidence()):
        return
    if problem := probe.install(space, [first, second]):
        now.errors |= dict.fromkeys(("probe", "neighbour", "routes"), problem)
        return
    now.say(
        f"filling the slice of {first}, {planned.chunk_mib} MiB at a time, then that of {second} beside it"
    )
    runs, table, problem = inside.fill(space, [first, second], card.uuid, planned, probe)
    now.put("probe", runs[0] if runs else None, problem)
    now.put("neighbour", runs[1] if runs else None, problem)
    now.parts["host_smi_text"] = table or None
    if not unmet("routes", now.evidence()):
        now.say("trying the other ways to allocate")
        now.put("routes", *inside.routes(space, first, card.uuid, planned, probe))


def _control(now: Measurement, space: Space, card: Card, planned: SlicePlan, probe: program.Program) -> None:
    now.say("allocating as much without HAMi-core, as a control")
    if until_running(now, space, (CONTROL,), SHORTLY) is None:
        now.errors["control"] = "the API server stopped answering"
        return
    if problem := probe.install(space, [CONTROL]):
        now.errors["control"] = problem
        return
    runs, _, problem = inside.fill(space, [CONTROL], card.uuid, planned, probe)
    now.put("control", runs[0] if runs else None, problem)


def _overask(now: Measurement, space: Space, card: Card, planned: SlicePlan, image: str) -> None:
    now.say(f"asking for {planned.overask_mib} MiB, more than is left")
    started = space.start([Wanted(OVERASK, planned.overask_mib)], image, card.uuid)
    if not started.ok:
        now.errors["overask_pod"] = f"the pod could not be created: {started.stderr.strip()}"
        return

    def refused(pod: Pod) -> str:
        if pod.phase != "Pending" or pod.node:
            return f"the pod is {pod.phase}"
        failed = [event for event in pod.events if event.reason == "FilteringFailed"]
        memory = any(read_event(event).code == "card-memory" for event in failed)
        return "Pending for lack of card memory" if memory else ""

    pod = wait_for_pod(now, space, OVERASK, "over-ask", refused)
    now.put("overask_pod", pod, "" if pod else "the API server does not answer")
    # The pods are looked at for the last time while they hold their slices: were they there all the time?
    _share(now, space, space.look())
    if unmet("pending-control", now.evidence()):
        return
    now.say("freeing the slices: now it must be scheduled")
    space.delete(*SHARE, CONTROL)
    pod = wait_for_pod(now, space, OVERASK, "over-ask", lambda pod: "scheduled" if pod.node else "")
    now.put("pending_control", pod, "" if pod else "the API server does not answer")


def _end(now: Measurement, space: Space) -> None:
    if now.parts.get("pending_control") is None:
        _share(now, space, space.look())
    ready: Any = pods.node_ready(space.host, now.parts["node"])
    now.parts["node_ready"] = ready
