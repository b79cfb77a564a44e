"""Which ways to allocate are held to the slice.

The plain way decides the claim `refused`. The others are shown one by one: a way that HAMi-core is known not to count
is a warning, any other that gets past the slice is a failure.
"""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence, ProbeRun
from hami_k3s.isolation.parse import find_out_of_memory
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown, warned

ID = "routes"
# Recorded with the HAMi-core of HAMi 2.9.0 on an H200: neither is counted.
KNOWN_GAPS = ("pool", "array")
ENFORCED, OPEN, UNTRIED, UNKNOWN = "enforced", "NOT enforced", "not tried", "not measured"


def word(run: ProbeRun) -> str:
    """enforced, NOT enforced, not tried (the driver has no such call), or not measured."""
    if run.result is None:
        return UNKNOWN
    if not run.result.measured:
        return UNTRIED
    if not run.result.refused:
        return OPEN
    return ENFORCED if find_out_of_memory(run.stderr) else UNKNOWN  # refused by the card, not by HAMi-core


def decide(evidence: Evidence) -> Verdict:
    """Every route that HAMi-core counts is refused by it; the others are named."""
    runs = {run.route: run for run in evidence.measured("routes", evidence.routes)}
    words = {route: word(run) for route, run in runs.items()}
    expected = f"refused past the slice, by HAMi-core: {', '.join(words)}"
    observed = "; ".join(
        f"{kind}: {', '.join(route for route, one in words.items() if one == kind)}"
        for kind in (ENFORCED, OPEN, UNTRIED, UNKNOWN)
        if kind in words.values()
    )
    unknown_ones = [route for route, one in words.items() if one == UNKNOWN]
    if unknown_ones or not words:
        run = runs[unknown_ones[0]] if unknown_ones else None
        last = ((run.stderr or run.stdout) if run else "").strip().splitlines()
        return unknown(
            ID,
            expected,
            observed or "nothing",
            f"{', '.join(unknown_ones)}: {last[-1] if last else 'no output'}",
        )
    gaps = [route for route, one in words.items() if one == OPEN]
    if new := [route for route in gaps if route not in KNOWN_GAPS]:
        why = f"{', '.join(new)}: past the slice, though HAMi-core is known to count it: a neighbour's memory can be taken"
        fix = "compare HAMi's version on the node (hami_chart_version) with its release notes; try another release"
        return failed(ID, expected, observed, why, fix)
    if gaps:
        why = f"known gap: HAMi-core does not count memory allocated through {' or '.join(gaps)}"
        fix = "keep frameworks off it (PyTorch: do not set backend:cudaMallocAsync), or use a HAMi-core that counts it"
        return warned(ID, expected, observed, why, fix)
    if UNTRIED in words.values():
        reasons = "; ".join(
            f"{route}: {run.result.error}" for route, run in runs.items() if run.result and run.result.error
        )
        return warned(ID, expected, observed, f"not every route could be tried: {reasons}")
    return passed(ID, expected, observed)


PAGE = """\
- Measured: the probe for each way to allocate, each in a process of its own: pitch, async, pool, vmm (virtual
  memory), array, managed. The plain way is the claim refused. Managed memory is only tried when the card has more
  free than the probe may take.
- Warns: a known gap is open. The HAMi-core of HAMi 2.9.0 does not count memory pools and arrays (recorded on an
  H200). Also when the driver does not have a call.
- Fails: a way that HAMi-core is known to count gets past the slice.
- Error: a probe crashed, or was refused without HAMi-core's line.
- Do: keep frameworks off the open ways (PyTorch: no `backend:cudaMallocAsync`), or use a HAMi-core that counts
  them.
"""

CLAIM = Claim(
    id=ID,
    statement="Every other way to allocate is held to the slice too.",
    proof="the probe once for each route, each in a process of its own, HAMi-core's line",
    step="-",
    decide=decide,
    page=PAGE,
    needs=("refused",),
)
