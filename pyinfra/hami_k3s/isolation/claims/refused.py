"""An allocation past the slice is refused while the card has room.

Three things together make it evidence: the refusal is HAMi-core's (its own line), the limit in that line is the
slice to the byte, and the host had memory free at that moment, so the card itself had no reason to refuse.
"""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence, ProbeResult, ProbeRun
from hami_k3s.isolation.parse import OutOfMemory, find_out_of_memory, find_preload_error
from hami_k3s.isolation.plan import SlicePlan
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown, warned

ID = "refused"
MIB = 1024 * 1024
# The CUDA context counts: 260 to 550 MiB were recorded. Below this the slice was worth less than it says.
CONTEXT_TOLERANCE_MIB = 1024
# The host must have had this many times the refused chunk free, or the card may have refused.
ROOM_FACTOR = 2


def decide(evidence: Evidence) -> Verdict:
    """The probe's result, HAMi-core's line, and what the host had free while the probe held its memory."""
    plan = evidence.measured("plan", evidence.plan)
    run = evidence.measured("probe", evidence.probe)
    expected = f"refused by HAMi-core before {plan.slice_mib} MiB, limit exactly {plan.slice_mib * MIB} bytes"
    if run.result is None or not run.result.measured:
        return not_measured(ID, run, expected)
    result = run.result
    if not result.refused:
        return failed(
            ID,
            expected,
            f"not refused: {result.allocated_mib} MiB were allocated in a slice of {plan.slice_mib}",
            "the limit is not enforced: a pod can take its neighbour's memory",
            "if the claim mechanism fails too, fix that first; if it holds, restart HAMi's device plugin, create the "
            "pods again, and try another HAMi release (hami_chart_version)",
        )
    line = find_out_of_memory(run.stderr)
    if line is None:
        return failed(
            ID,
            expected,
            f"refused after {result.allocated_mib} MiB with {result.rc_name or result.rc}, without HAMi-core's line",
            "something else than HAMi-core refused: the card may be full, or the driver in trouble",
            "look at nvidia-smi on the host for other users of the card, and at dmesg for Xid errors",
        )
    return _by_hami_core(run, result, line, plan, expected)


def _by_hami_core(
    run: ProbeRun, result: ProbeResult, line: OutOfMemory, plan: SlicePlan, expected: str
) -> Verdict:
    observed = f"refused after {result.allocated_mib} MiB, OOM {line.would_be} / {line.limit}"
    look = "compare nvidia.com/gpumem of the pod with CUDA_DEVICE_MEMORY_LIMIT_0 in it"
    if line.limit != plan.slice_mib * MIB:
        why = f"HAMi-core enforces another limit ({line.limit / MIB:g} MiB) than the slice"
        return failed(ID, expected, observed, why, look)
    if not 0 < line.would_be - line.limit <= result.chunk_mib * MIB:
        why = f"the refused step does not cross the limit by up to one chunk ({result.chunk_mib} MiB)"
        return failed(ID, expected, observed, why, "look for other processes in the pod that use the card")
    if result.allocated_mib >= plan.slice_mib:
        why = "the probe got its whole slice and more before it was refused: HAMi-core's accounting is off"
        return failed(ID, expected, observed, why, "report it to HAMi with the report's evidence")
    if run.host_free_mib is None:
        why = "the host's free memory at that moment was not read, so the card itself may have refused"
        return unknown(ID, expected, observed, why)
    observed += f"; {run.host_free_mib} MiB free on the host"
    if run.host_free_mib < ROOM_FACTOR * result.chunk_mib:
        return unknown(
            ID,
            expected,
            observed,
            f"the card had less than {ROOM_FACTOR} chunks of {result.chunk_mib} MiB free: it may have refused itself",
            "stop what else uses the card, or set a smaller verify_slice_mib",
        )
    if result.allocated_mib < max(plan.slice_mib - CONTEXT_TOLERANCE_MIB, 1):
        why = (
            f"refused {plan.slice_mib - result.allocated_mib} MiB before the limit; a CUDA context explains up to "
            f"{CONTEXT_TOLERANCE_MIB}"
        )
        return warned(ID, expected, observed, why, "look for other processes in the pod that use the card")
    return passed(ID, expected, observed)


def not_measured(claim: str, run: ProbeRun, expected: str) -> Verdict:
    """The verdict of a probe without a result: error, with the most telling line."""
    if complaint := find_preload_error(run.stderr):
        return unknown(
            claim, expected, f"the probe could not run: {complaint}", "", "see the claim mechanism"
        )
    if run.result is not None and run.result.error:
        why = "the probe could not allocate at all"
        return unknown(claim, expected, run.result.error, why, "see the claims driver and runtime")
    last = (run.stderr.strip() or run.stdout.strip() or "no output").splitlines()[-1]
    observed = f"the probe gave no result (exit status {run.exit_status}): {last}"
    why = "the probe did not run to its end"
    return unknown(claim, expected, observed, why, "look at the probe pod: its image needs python3 (or nvcc)")


PAGE = """\
- Measured: the probe allocates step by step in the pod and holds what it got, while the host's `nvidia-smi` is
  read. Three things make it evidence: HAMi-core's own line on stderr, the limit in it, and the host's free memory
  at that moment.
- Passes when the limit in the line is the slice **to the byte**, the refused step crosses it by at most one step,
  and less than the slice was allocated. How much exactly depends on the CUDA context (260 to 550 MiB were
  recorded), so it is a band: from slice - 1024 MiB up to the slice; below that it warns.
- Fails: nothing refused up to the cap (the limit is not enforced); refused without HAMi-core's line (the card or
  the driver refused); another limit.
- Error: the probe could not run, or the host had less than two steps free, so the card itself may have refused.
- Do: if mechanism fails too, fix that first.
"""

CLAIM = Claim(
    id=ID,
    statement="An allocation past the slice is refused while the card has room.",
    proof="the probe, HAMi-core's line with the exact limit, the host's free memory at that moment",
    step="6",
    decide=decide,
    page=PAGE,
    needs=("co-resident", "mechanism"),
)
