"""A pod sees its slice, not the card."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "slice-visible"
# nvidia-smi shows whole MiB, rounded its own way; the whole card is always several slices away.
TOLERANCE = 0.01


def decide(evidence: Evidence) -> Verdict:
    """Memory total of nvidia-smi in the pod against the slice and against the host's."""
    plan = evidence.measured("plan", evidence.plan)
    view = evidence.measured("view", evidence.view)
    card = evidence.card()
    expected = f"{plan.slice_mib} MiB in the pod, {card.memory_mib} MiB on the host"
    observed = f"{view.total_mib} MiB in {view.pod}, {card.memory_mib} MiB on the host"
    if view.uuid != card.uuid:
        why = f"the pod sees {view.uuid}, which is not the card under test, {card.uuid}"
        return failed(ID, expected, observed, why, "look at NVIDIA_VISIBLE_DEVICES in the pod")
    if _close(view.total_mib, plan.slice_mib):
        return passed(ID, expected, observed)
    if _close(view.total_mib, card.memory_mib):
        return failed(
            ID,
            expected,
            observed,
            "the pod sees the whole card: HAMi-core is not loaded in it",
            "see the claim mechanism, which says what is missing in the pod",
        )
    return failed(
        ID,
        expected,
        observed,
        "the pod sees neither its slice nor the card",
        "look at CUDA_DEVICE_MEMORY_LIMIT_0 and nvidia.com/gpumem of the pod",
    )


def _close(seen: int, wanted: int) -> bool:
    return abs(seen - wanted) <= wanted * TOLERANCE


PAGE = """\
- Measured: memory total of `nvidia-smi` in the pod and on the host. Tolerance 1 %, because tools round.
- Fails: the pod sees the whole card, something else, or another card.
- Do: see mechanism.
"""

CLAIM = Claim(
    id=ID,
    statement="A pod sees its slice, not the card.",
    proof="nvidia-smi in the pod and on the host",
    step="6",
    decide=decide,
    page=PAGE,
    needs=("co-resident", "mechanism"),
)
