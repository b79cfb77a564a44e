"""nvidia.com/gpu is healthy cards x split count."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "allocatable"


def decide(evidence: Evidence) -> Verdict:
    """The node's allocatable nvidia.com/gpu against the registered healthy cards and the split count."""
    registration = evidence.measured("registration", evidence.registration)
    split = evidence.measured("split_count", evidence.split_count)
    seen = evidence.measured("allocatable", evidence.allocatable)
    healthy = sum(device.healthy for device in registration.devices)
    expected = f"{healthy} card(s) x {split} = {healthy * split}"
    observed = f"nvidia.com/gpu: {seen}"
    if seen == healthy * split:
        return passed(ID, expected, observed)
    if seen == 0:
        why = "kubelet has no device plugin for nvidia.com/gpu, or holds its devices to be unhealthy"
        fix = "kubectl -n kube-system get pods -l app.kubernetes.io/component=hami-device-plugin, and its log"
    elif seen == healthy:
        why = "the count is that of whole cards: another device plugin won kubelet's socket"
        fix = "remove the other plugin (claim sole-provider names it), then restart HAMi's device plugin"
    else:
        why = "kubelet's count is not what HAMi registered with this split count"
        fix = "check devicePlugin.deviceSplitCount in hami_values, then restart HAMi's device plugin"
    return failed(ID, expected, observed, why, fix)


PAGE = """\
- Measured: the node's status against the registration and the release's `devicePlugin.deviceSplitCount`.
- Fails: 0 (kubelet has no plugin), the bare number of cards (another plugin won), or any other number.
- Do: see sole-provider; restart HAMi's device plugin.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="nvidia.com/gpu is healthy cards x split count.",
    proof="the node's status, the registration, the release's split count",
    step="4",
    decide=decide,
    page=PAGE,
    needs=("registered",),
)
