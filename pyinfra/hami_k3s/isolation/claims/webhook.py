"""GPU pods reach HAMi's scheduler."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "webhook"


def decide(evidence: Evidence) -> Verdict:
    """The webhook has endpoints and a CA, and a dry-run GPU pod comes back with HAMi's schedulerName."""
    webhook = evidence.measured("webhook", evidence.webhook)
    expected = f"endpoints, and a dry-run GPU pod is given to {evidence.scheduler_name}"
    open_door = "the webhook fails open: a GPU pod created now goes to the default scheduler, without a limit"
    if not webhook.endpoints:
        return failed(
            ID,
            expected,
            "no endpoints",
            open_door,
            "kubectl -n kube-system get endpointslices,pods -l app.kubernetes.io/name=hami; wait for the "
            "scheduler pod's label hami.io/scheduler-role=leader, or look in its log",
        )
    if not webhook.ca_bundle:
        return failed(
            ID,
            expected,
            "the webhook configuration has no caBundle",
            open_door,
            "look at the job hami-admission-patch (kubectl -n kube-system get jobs), then install HAMi again",
        )
    scheduler = evidence.measured("webhook (dry-run pod)", webhook.dry_run_scheduler)
    if scheduler != evidence.scheduler_name:
        return failed(
            ID,
            expected,
            f"{len(webhook.endpoints)} endpoint(s), but the dry-run pod was given to {scheduler}",
            open_door,
            "look in the API server's log for 'failed calling webhook' (journalctl -u k3s | grep webhook)",
        )
    return passed(
        ID, expected, f"{len(webhook.endpoints)} endpoint(s); the dry-run pod was given to {scheduler}"
    )


PAGE = """\
- Measured: endpoints and CA of the admission webhook; the `schedulerName` of a GPU pod created with a server-side
  dry run.
- Fails: no endpoints, no CA, or the pod keeps another scheduler. The webhook fails open, so such pods run without
  any limit.
- Do: wait for the scheduler pod's label `hami.io/scheduler-role=leader`; look for `failed calling webhook` in
  `journalctl -u k3s`.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="GPU pods reach HAMi's scheduler.",
    proof="endpoints of the webhook, server-side dry run of a GPU pod",
    step="4",
    decide=decide,
    page=PAGE,
)
