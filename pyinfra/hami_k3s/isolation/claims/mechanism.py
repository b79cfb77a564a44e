"""HAMi-core is loaded in the pod."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.parse import find_preload_error, preload_names_hami_core
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "mechanism"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"
OPT_OUT = "CUDA_DISABLE_CONTROL"
RESTART = "restart HAMi's device plugin (it puts the library on the host), then create the pods again"


def decide(evidence: Evidence) -> Verdict:
    """The preload file names libvgpu.so, the library is there and loads, and the limit is the slice exactly."""
    plan = evidence.measured("plan", evidence.plan)
    seen = evidence.measured("mechanism", evidence.mechanism)
    wanted = f"{plan.slice_mib}m"
    limit = seen.environment.get(LIMIT)
    named = preload_names_hami_core(seen.preload or "")
    expected = f"libvgpu.so in /etc/ld.so.preload, {LIMIT}={wanted}"
    observed = f"{named or 'not preloaded'}, {LIMIT}={limit or '(unset)'}"
    complaint = find_preload_error(seen.stderr)
    if complaint:
        why = f"the loader skips HAMi-core, so nothing is limited: {complaint}"
        return failed(ID, expected, f"{observed}, not loaded", why, RESTART)
    if named is None:
        if OPT_OUT in seen.environment:
            why = f"{OPT_OUT} is set in the pod: it opts out of the limit"
            return failed(ID, expected, observed, why, f"remove {OPT_OUT} from the pod's env")
        why = "HAMi-core is not in /etc/ld.so.preload of the pod, so no process in it is limited"
        return failed(ID, expected, observed, why, f"see the claims webhook and sole-provider; {RESTART}")
    if seen.library is None:
        return failed(ID, expected, f"{observed}, no such file", f"{named} is not in the pod", RESTART)
    if limit != wanted:
        why = "HAMi-core reads its limit from this variable"
        fix = f"look for an env entry {LIMIT} in the pod's spec that overrides HAMi's"
        return failed(ID, expected, observed, why, fix)
    return passed(ID, expected, observed)


PAGE = """\
- Measured: `/etc/ld.so.preload`, the library that it names, `CUDA_DEVICE_MEMORY_LIMIT_0`, stderr of a command in
  the pod.
- Fails: the file does not name `libvgpu.so`, the library is missing or the loader complains (`cannot be preloaded`:
  nothing is limited then, and all goes on), or the limit is not exactly `<slice>m`.
- Do: restart HAMi's device plugin, which puts the library on the host, and create the pods again.
"""

CLAIM = Claim(
    id=ID,
    statement="HAMi-core is loaded in the pod.",
    proof="/etc/ld.so.preload, the library, the exact limit, no complaint of the loader",
    step="7",
    decide=decide,
    page=PAGE,
    needs=("co-resident",),
)
