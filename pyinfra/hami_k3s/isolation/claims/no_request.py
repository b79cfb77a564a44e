"""A pod that asked for no GPU sees none.

Two containers: one as most images are, and one with NVIDIA_VISIBLE_DEVICES=all, which CUDA images carry. The second
sees every card where NVIDIA's runtime is the default and nothing overwrites the variable: known, and a warning.
"""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence, Sight
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown, warned

ID = "no-request"
PLAIN, GREEDY = "plain", "asks-for-all"
EXPECTED = "no card in a pod without a request, whatever its image says"


def decide(evidence: Evidence) -> Verdict:
    """No device file and no line of nvidia-smi in either container."""
    sights = {sight.container: sight for sight in evidence.measured("no_request", evidence.no_request)}
    if set(sights) != {PLAIN, GREEDY}:
        return unknown(ID, EXPECTED, f"only {', '.join(sights) or 'nothing'}", "both containers are needed")
    observed = "; ".join(f"{name}: {_seen(sight)}" for name, sight in sights.items())
    if _seen(sights[PLAIN]) != "none":
        why = "a pod that asked for nothing was given the driver and cards: it can use them without any limit"
        fix = "look for NVIDIA_VISIBLE_DEVICES in the pod's spec, its image, and in what mutates pods"
        return failed(ID, EXPECTED, observed, why, fix)
    if _seen(sights[GREEDY]) != "none":
        why = "an image with NVIDIA_VISIBLE_DEVICES=all (CUDA images have it) sees every card without asking, and without a limit"
        fix = 'set hami_values: {"scheduler": {"overwriteEnv": "true"}} and converge: HAMi then overwrites the variable'
        return warned(ID, EXPECTED, observed, why, fix)
    return passed(ID, EXPECTED, observed)


def _seen(sight: Sight) -> str:
    return ", ".join(sight.listed or sight.devices) or "none"


PAGE = """\
- Measured: device files and `nvidia-smi -L` in a pod with two containers: one as most images are, one with
  `NVIDIA_VISIBLE_DEVICES=all`, which CUDA images carry. Once a node.
- Fails: the plain container sees a card.
- Warns: the container that asks for all sees cards. That is so where nvidia is the default runtime and nothing
  overwrites the variable.
- Do: set `hami_values: {"scheduler": {"overwriteEnv": "true"}}` and converge.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="A pod that asked for no GPU sees none.",
    proof="device files and nvidia-smi in a pod without a request, with and without NVIDIA_VISIBLE_DEVICES=all",
    step="-",
    decide=decide,
    page=PAGE,
    needs=("webhook", "allocatable"),
)
