"""Two pods share one card."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Event, Evidence, Pod
from hami_k3s.isolation.parse import read_event
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown

ID = "co-resident"
PLACED = ("Scheduled", "FilteringSucceed")


def decide(evidence: Evidence) -> Verdict:
    """Both pods Running, each with a slice of the same card, placed there by HAMi's scheduler."""
    if evidence.node_ready is False:
        why = f"node {evidence.node} is not Ready: nothing starts there, and what its pods show is old"
        return unknown(
            ID, "two pods Running on one card", "node NotReady", why, f"kubectl describe node {evidence.node}"
        )
    pods = evidence.measured("share_pods", evidence.share_pods)
    plan = evidence.measured("plan", evidence.plan)
    scheduler = evidence.scheduler_name
    expected = f"two pods Running on one card, {plan.slice_mib} MiB each, placed by {scheduler}"
    if len(pods) < 2:
        return unknown(ID, expected, f"{len(pods)} pod(s)", "two pods are needed to show that they share")
    idle = [pod for pod in pods if pod.phase != "Running"]
    if idle and (why := _not_hamis(idle[0])):
        observed = ", ".join(f"{pod.name} {pod.phase}" for pod in pods)
        return unknown(
            ID, expected, observed, why, f"kubectl describe node {evidence.node}; then run verify again"
        )
    if idle:
        return failed(
            ID,
            expected,
            ", ".join(f"{pod.name} {pod.phase}" for pod in pods),
            explain(idle[0]),
            f"kubectl get pods -A | grep {idle[0].name}, then describe that pod",
        )
    granted = [[one.uuid for one in pod.allocated] for pod in pods]
    observed = "; ".join(f"{pod.name} Running, {_grant(pod)}" for pod in pods)
    if not all(granted):
        return failed(
            ID,
            expected,
            observed,
            "a pod runs without a grant from HAMi: the webhook missed it, or another plugin served it",
            "see the claims webhook and sole-provider, then create the pods again",
        )
    if any(uuids != granted[0] or len(uuids) != 1 for uuids in granted):
        return failed(
            ID,
            expected,
            observed,
            "the pods are not on one card",
            "on a node with several cards pin the pods with the annotation nvidia.com/use-gpuuuid",
        )
    if evidence.card_uuid is not None and granted[0] != [evidence.card_uuid]:
        why = f"the pods share another card than the one under test, {evidence.card_uuid}"
        return failed(ID, expected, observed, why, "pin the pods with the annotation nvidia.com/use-gpuuuid")
    if any(one.memory_mib != plan.slice_mib for pod in pods for one in pod.allocated):
        why = "HAMi granted another size than the pod asks for"
        return failed(
            ID, expected, observed, why, "look for a rule that changes nvidia.com/gpumem of the pods"
        )
    return _by_hami(evidence, pods, expected, observed)


def _not_hamis(pod: Pod) -> str:
    """What kept the pod from running and says nothing about sharing: an eviction, an image, a container that ended."""
    if pod.reason.startswith("UnexpectedAdmissionError"):
        return ""  # that is about sharing: kubelet and HAMi disagree
    if pod.reason:
        return pod.reason
    if pod.phase in ("Failed", "Succeeded", "Unknown", "Deleted"):
        return f"the pod is {pod.phase}"
    image = next((event for event in pod.events if read_event(event).code == "image"), None)
    return image.message if image else ""


def _by_hami(evidence: Evidence, pods: tuple[Pod, ...], expected: str, observed: str) -> Verdict:
    for pod in pods:
        placed = [event for event in pod.events if event.reason in PLACED]
        if not placed:
            return unknown(ID, expected, observed, f"no scheduling event of {pod.name} was found")
        strangers = sorted({event.source for event in placed} - {evidence.scheduler_name})
        if strangers:
            why = f"{pod.name} was placed by {', '.join(strangers)}, which does not account memory"
            return failed(ID, expected, observed, why, "see the claim webhook, then create the pods again")
    return passed(ID, expected, f"{observed}, placed by {evidence.scheduler_name}")


def explain(pod: Pod) -> str:
    """Why a pod is not Running, in words: the most telling of its events."""
    return next(
        (f"{event.source}: {read_event(event).sentence}" for event in telling(pod.events)),
        "no event says why",
    )


def telling(events: tuple[Event, ...]) -> list[Event]:
    """The warnings, those whose reason is known before generic ones."""
    generic = ("unfit", "other")
    warnings = [event for event in events if event.type == "Warning"]
    return sorted(warnings, key=lambda event: read_event(event).code in generic)


def _grant(pod: Pod) -> str:
    return ", ".join(f"{one.memory_mib} MiB of {one.uuid}" for one in pod.allocated) or "no grant"


PAGE = """\
- Measured: both Running; one and the same UUID in `hami.io/vgpu-devices-allocated` with the planned MiB; their
  `Scheduled` and `FilteringSucceed` events come from HAMi's scheduler.
- Fails: a pod does not run (its most telling event is shown); no grant; different cards; another size; another
  scheduler.
- Do: describe the pod; on nodes with several cards pods are pinned with `nvidia.com/use-gpuuuid`.
"""

CLAIM = Claim(
    id=ID,
    statement="Two pods share one card.",
    proof="both Running, one and the same UUID in their grants, events from HAMi's scheduler",
    step="5",
    decide=decide,
    page=PAGE,
    needs=("webhook", "allocatable"),
)
