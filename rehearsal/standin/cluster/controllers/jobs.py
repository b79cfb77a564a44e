"""Jobs: pods until enough of them succeed or too many fail."""

from typing import Any

from .. import clock, events
from ..cluster import Cluster, condition, is_leaving, is_ready, owned_by
from . import pods

Object = dict[str, Any]
SOURCE = "job-controller"


def sync(cluster: Cluster) -> None:
    for job in cluster.store.select("batch/jobs"):
        if not is_leaving(job):
            _job(cluster, job)


def _job(cluster: Cluster, job: Object) -> None:
    meta, spec = job["metadata"], job["spec"]
    status = dict(job.get("status") or {})
    if any(c["type"] in ("Complete", "Failed") for c in status.get("conditions") or []):
        _expire(cluster, job)
        return
    mine = [p for p in cluster.store.select("pods", meta["namespace"]) if owned_by(p, meta["uid"])]
    done = sum(1 for p in mine if p.get("status", {}).get("phase") == "Succeeded")
    failed = sum(1 for p in mine if p.get("status", {}).get("phase") == "Failed")
    active = [
        p for p in mine if p.get("status", {}).get("phase") in ("Pending", "Running") and not is_leaving(p)
    ]
    status.setdefault("startTime", clock.stamp())
    if done >= spec["completions"]:
        end = clock.stamp()
        status["completionTime"] = end
        text = "Reached expected number of succeeded pods"
        status["conditions"] = [
            condition("SuccessCriteriaMet", "True", "CompletionsReached", text),
            condition("Complete", "True", "CompletionsReached", text),
        ]
        events.emit(cluster.store, job, "Normal", "Completed", "Job completed", SOURCE)
    elif failed > spec["backoffLimit"]:
        text = "Job has reached the specified backoff limit"
        status["conditions"] = [
            condition("FailureTarget", "True", "BackoffLimitExceeded", text),
            condition("Failed", "True", "BackoffLimitExceeded", text),
        ]
        events.emit(cluster.store, job, "Warning", "BackoffLimitExceeded", text, SOURCE)
        for pod in active:
            pods.delete(cluster, job, pod, SOURCE)
    elif not active and _may_start(mine, failed):
        made = pods.create(cluster, job, spec["template"], SOURCE)
        active = [made] if made else []
    for name, count in (("active", len(active)), ("succeeded", done), ("failed", failed)):
        status.pop(name, None)
        if count:
            status[name] = count
    if "conditions" in status:
        status.pop("active", None)
    status["ready"] = sum(map(is_ready, active))
    cluster.patch_status("batch/jobs", job, status)


def _may_start(mine: list[Object], failed: int) -> bool:
    """Kubernetes waits 10 s, 20 s, 40 s ... after each failed pod."""
    ends = [
        c["state"]["terminated"]["finishedAt"]
        for p in mine
        for c in p.get("status", {}).get("containerStatuses") or []
        if "terminated" in c.get("state", {})
    ]
    return not failed or not ends or clock.age(max(ends)) > min(10 * 2 ** (failed - 1), 360)


def _expire(cluster: Cluster, job: Object) -> None:
    limit = job["spec"].get("ttlSecondsAfterFinished")
    end = job["status"].get("completionTime")
    if limit is not None and end and clock.age(end) > limit:
        meta = job["metadata"]
        options = {"propagationPolicy": "Background"}
        cluster.objects.delete(cluster.resource("batch/jobs"), meta["namespace"], meta["name"], options)
