"""Filling one slice takes nothing from the other."""

from __future__ import annotations

from hami_k3s.isolation.claims import refused
from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.parse import find_out_of_memory
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown

ID = "neighbour"
MIB = 1024 * 1024


def decide(evidence: Evidence) -> Verdict:
    """The second pod gets its slice, as far as the first one got its own, while the first still holds it."""
    plan = evidence.measured("plan", evidence.plan)
    first = evidence.measured("probe", evidence.probe)
    run = evidence.measured("neighbour", evidence.neighbour)
    least = max(plan.slice_mib - refused.CONTEXT_TOLERANCE_MIB, plan.chunk_mib)
    expected = f"{least} MiB or more of its {plan.slice_mib} for {run.pod}, while {first.pod} is full"
    if run.result is None or not run.result.measured:
        return refused.not_measured(ID, run, expected)
    held = first.result.allocated_mib if first.result else 0
    got = run.result.allocated_mib
    observed = f"{got} MiB for {run.pod} beside {held} of {first.pod}"
    look = "look at nvidia-smi on the host, and at CUDA_DEVICE_MEMORY_SHARED_CACHE in both pods: each has a file of its own"
    if not run.result.refused:
        why = f"{run.pod} is not limited: it got more than its slice"
        return failed(ID, expected, observed, why, "see the claim refused; create the pods again")
    line = find_out_of_memory(run.stderr)
    if got < least:
        by = (
            f"HAMi-core counted {line.would_be // MIB} MiB against it"
            if line
            else "the card had no room for it"
        )
        return failed(ID, expected, observed, f"what {first.pod} holds is missing in {run.pod}: {by}", look)
    if line is None or line.limit != plan.slice_mib * MIB:
        why = "the second pod was stopped by something else than its own limit"
        return failed(ID, expected, observed, why, look)
    if run.host_used_mib is None:
        why = "the host's view of that moment was not read, so the first pod may have let go"
        return unknown(ID, expected, observed, why)
    observed += f"; {run.host_used_mib} MiB in use on the host"
    if run.host_used_mib < held + got:
        why = "the host saw less in use than both hold: the first pod had let go before the second was full"
        return unknown(
            ID, expected, observed, why, "look for a restart of the first pod, then run verify again"
        )
    return passed(ID, expected, observed)


PAGE = """\
- Measured: the probe of the second pod, started while the first one holds what it got; the host's memory in use
  then.
- Passes when the second pod gets its slice as the first did (the same band), stopped by HAMi-core at its own exact
  limit, and the host sees both amounts in use at the same time.
- Fails: the second pod gets less, or is stopped by something else, or is not limited.
- Error: the host's view was not read, or shows that the first pod had let go.
- Do: look at the host's nvidia-smi; each pod must have a file of its own in `CUDA_DEVICE_MEMORY_SHARED_CACHE`.
"""

CLAIM = Claim(
    id=ID,
    statement="Filling one slice takes nothing from the other.",
    proof="a second probe in the other pod while the first holds its memory, the host's memory in use",
    step="6",
    decide=decide,
    page=PAGE,
    needs=("refused",),
)
