"""The same allocation without HAMi-core succeeds.

Without this a refusal could come from a card or a driver that never gives so much. The pod opts out of HAMi-core with
CUDA_DISABLE_CONTROL. It runs while the two slices are empty and stays below what they are granted, so nobody else's
memory is used.
"""

from __future__ import annotations

from hami_k3s.isolation.claims import refused
from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.parse import find_out_of_memory
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "control"


def decide(evidence: Evidence) -> Verdict:
    """The probe reaches its cap, past the slice, in a pod without HAMi-core."""
    plan = evidence.measured("plan", evidence.plan)
    run = evidence.measured("control", evidence.control)
    expected = f"more than {plan.slice_mib} MiB in a pod without HAMi-core"
    if run.result is None or not run.result.measured:
        return refused.not_measured(ID, run, expected)
    got = run.result.allocated_mib
    line = find_out_of_memory(run.stderr)
    if line is not None:
        why = "HAMi-core answers in a pod that opted out of it (CUDA_DISABLE_CONTROL): there is nothing to compare with"
        fix = "look for something that puts libvgpu.so in every pod: /etc/ld.so.preload of the image, LD_PRELOAD in the spec"
        return failed(ID, expected, f"refused after {got} MiB by HAMi-core", why, fix)
    if run.result.refused:
        return failed(
            ID,
            expected,
            f"refused after {got} MiB with {run.result.rc_name or run.result.rc}, without HAMi-core",
            "the card or the driver refuses by itself, so a refusal in a slice proves nothing about HAMi",
            "look at nvidia-smi on the host for other users of the card, and at dmesg for Xid errors",
        )
    if got <= plan.slice_mib:
        why = "the probe ended before it was past the slice"
        return failed(ID, expected, f"{got} MiB", why, "report it with the JSON report")
    return passed(ID, expected, f"{got} MiB allocated in {run.pod}, not refused")


PAGE = """\
- Measured: the same probe in a pod that opted out of HAMi-core (`CUDA_DISABLE_CONTROL`). It runs while both slices
  are empty and stays below what they are granted together, so it uses nobody else's memory.
- Fails: it is refused, by the card (then a refusal in a slice proves nothing about HAMi) or by a HAMi-core that is
  loaded all the same.
- Do: look at nvidia-smi on the host for other users of the card, and at `dmesg` for Xid errors.
"""

CLAIM = Claim(
    id=ID,
    statement="The same allocation without HAMi succeeds.",
    proof="the probe in a pod that opted out of HAMi-core, small and brief",
    step="-",
    decide=decide,
    page=PAGE,
    needs=("co-resident",),
)
