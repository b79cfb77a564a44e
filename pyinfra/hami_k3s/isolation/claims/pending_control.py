"""The over-ask schedules once the slices are free: then its Pending was accounting, and nothing else."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.claims.co_resident import explain
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown

ID = "pending-control"


def decide(evidence: Evidence) -> Verdict:
    """HAMi's scheduler placed the very pod that was Pending before."""
    plan = evidence.measured("plan", evidence.plan)
    pod = evidence.measured("pending_control", evidence.pending_control)
    scheduler = evidence.scheduler_name
    expected = f"the same {plan.overask_mib} MiB scheduled by {scheduler} once the slices are free"
    observed = f"{pod.name} {pod.phase}"
    if evidence.overask_pod is not None and pod.uid != evidence.overask_pod.uid:
        return unknown(ID, expected, observed, "it is another pod than the one that was Pending")
    placed = [event for event in pod.events if event.reason == "Scheduled" and event.source == scheduler]
    if pod.node is None or not placed:
        return failed(
            ID,
            expected,
            f"{observed}: {explain(pod)}",
            "the pod stays Pending with both slices gone: it was not (only) the slices that kept it out",
            "HAMi's scheduler still counts pods that are gone: restart deployment/hami-scheduler and see its log",
        )
    granted = sum(one.memory_mib for one in pod.allocated)
    return passed(ID, expected, f"scheduled to {pod.node}, {granted} MiB granted")


PAGE = """\
- Measured: the pod that was Pending, the very same (its UID), after the two pods are deleted.
- Passes with its `Scheduled` event from HAMi's scheduler.
- Fails: it stays Pending; then its Pending was not, or not only, about the slices.
- Do: restart deployment/hami-scheduler, which counts pods that are gone; see its log.
"""

CLAIM = Claim(
    id=ID,
    statement="The same pod schedules once the slices are free.",
    proof="its Scheduled event from HAMi's scheduler after the two pods are deleted",
    step="-",
    decide=decide,
    page=PAGE,
    needs=("pending",),
)
