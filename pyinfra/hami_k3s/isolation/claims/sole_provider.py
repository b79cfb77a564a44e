"""HAMi alone provides nvidia.com/gpu."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "sole-provider"
EXPECTED = "no other device plugin, no GPU Operator"


def decide(evidence: Evidence) -> Verdict:
    """No DaemonSet or auto-deploy manifest of another plugin, and no ClusterPolicy CRD."""
    providers = evidence.measured("providers", evidence.providers)
    found = [f"{one.kind} {one.namespace}/{one.name}".replace(" /", " ") for one in providers.others]
    if providers.cluster_policy_crd:
        found.append("CRD clusterpolicies.nvidia.com (GPU Operator)")
    if not found:
        return passed(ID, EXPECTED, "only HAMi's device plugin")
    return failed(
        ID,
        EXPECTED,
        "; ".join(found),
        "two device plugins use one kubelet socket: the later one wins, and its pods get the whole card",
        _fix(evidence),
    )


def _fix(evidence: Evidence) -> str:
    providers = evidence.measured("providers", evidence.providers)
    if providers.cluster_policy_crd:
        return "use a node without the GPU Operator, or uninstall it (helm uninstall, then delete its CRDs)"
    first = providers.others[0]
    if first.kind == "Manifest":
        return f"remove /var/lib/rancher/k3s/server/manifests/{first.name} on the server, then restart k3s"
    return (
        f"kubectl -n {first.namespace} delete daemonset {first.name} (and its manifest under "
        "/var/lib/rancher/k3s/server/manifests), then restart HAMi's device plugin"
    )


PAGE = """\
- Measured: DaemonSets of all namespaces, k3s' auto-deploy manifests, the GPU Operator's CRD.
- Fails: any of these belongs to another plugin. Both use one kubelet socket; the later one wins and its pods get
  whole cards.
- Do: delete the DaemonSet it names and its manifest, or use a node without the GPU Operator.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="HAMi alone provides nvidia.com/gpu.",
    proof="DaemonSets of all namespaces, k3s' auto-deploy manifests, CRDs",
    step="warning box",
    decide=decide,
    page=PAGE,
)
