"""A pod that cannot fit stays Pending for that reason.

Pending alone has a dozen causes, and a broken installation has most of them. Only HAMi's own event that this
node's card has too little memory shows that memory is accounted.
"""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.claims.co_resident import explain
from hami_k3s.isolation.evidence import Event, Evidence
from hami_k3s.isolation.parse import read_event
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown

ID = "pending"


def decide(evidence: Evidence) -> Verdict:
    """The over-ask pod is Pending with FilteringFailed and CardInsufficientMemory(node) from HAMi's scheduler."""
    plan = evidence.measured("plan", evidence.plan)
    pod = evidence.measured("overask_pod", evidence.overask_pod)
    scheduler = evidence.scheduler_name
    expected = f"{plan.overask_mib} MiB Pending: CardInsufficientMemory from {scheduler}"
    observed = f"{pod.name} {pod.phase}"
    if pod.phase != "Pending" or pod.node is not None:
        # A pod that has its node is scheduled, though its container may not run yet.
        observed += f", scheduled to {pod.node}" if pod.phase == "Pending" else ""
        return failed(
            ID,
            expected,
            observed,
            f"{plan.overask_mib} MiB were scheduled though only {plan.beside_mib} are left beside the slices",
            "HAMi's scheduler does not account the slices: restart deployment/hami-scheduler and see its log",
        )
    refusals = [event for event in pod.events if _for_memory(event, scheduler)]
    if not refusals:
        if not pod.events:
            return unknown(
                ID, expected, f"{observed}, without an event", "nothing says why the pod is Pending"
            )
        return failed(
            ID,
            expected,
            f"{observed}: {explain(pod)}",
            "the pod is Pending for another reason than memory, which proves nothing about accounting",
            "see the claims webhook and registered; kubectl get events -A shows all reasons",
        )
    if evidence.node is not None and not any(_names(event, evidence.node) for event in refusals):
        why = f"HAMi's reason names other nodes than {evidence.node}"
        return failed(ID, expected, f"{observed}: {refusals[0].message}", why, "pin the pod to this node")
    return passed(ID, expected, f"{observed}: {refusals[0].message}")


def _for_memory(event: Event, scheduler: str) -> bool:
    by_hami = event.reason == "FilteringFailed" and event.source == scheduler
    return by_hami and read_event(event).code == "card-memory"


def _names(event: Event, node: str) -> bool:
    return node in [name.strip() for name in read_event(event).subject.split(",")]


PAGE = """\
- Measured: phase and events of the third pod.
- Passes only with an event `FilteringFailed` from HAMi's scheduler that says `CardInsufficientMemory` of this node.
  Pending alone has a dozen causes, and a broken installation has most of them.
- Fails: the pod was scheduled, or is Pending for another reason, which is named. Error: no event says why.
"""

CLAIM = Claim(
    id=ID,
    statement="A pod that cannot fit stays Pending for that reason.",
    proof="FilteringFailed with CardInsufficientMemory(node) from HAMi's scheduler",
    step="6",
    decide=decide,
    page=PAGE,
    needs=("co-resident",),
)
