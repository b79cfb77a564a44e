"""What a reader may want to see behind a claim: the tools' own output, claim by claim."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

from hami_k3s.isolation.claims import CLAIMS, routes
from hami_k3s.isolation.evidence import Evidence, Pod, ProbeRun

Exhibit = dict[str, str]  # title, text
_SCOPE = {claim.id: claim.scope for claim in CLAIMS}


def exhibits(evidence: Evidence, scope: Literal["node", "card"]) -> dict[str, list[Exhibit]]:
    """Per claim its exhibits, those with a text only."""
    shown = {claim: make(evidence) for claim, make in _MAKERS.items() if _SCOPE[claim] == scope}
    kept = {claim: [one for one in found if one["text"].strip()] for claim, found in shown.items()}
    return {claim: found for claim, found in kept.items() if found}


def _one(title: str, text: str) -> Exhibit:
    return {"title": title, "text": text}


def _data(title: str, data: Any) -> Exhibit:
    return _one(title, json.dumps(data, indent=1, default=str) if data else "")


def _probe(run: ProbeRun | None) -> list[Exhibit]:
    if run is None:
        return []
    host = (
        f"{run.host_used_mib} MiB used, {run.host_free_mib} MiB free" if run.host_free_mib is not None else ""
    )
    return [
        _one(f"stdout, {run.pod}", run.stdout),
        _one(f"stderr, {run.pod}", run.stderr),
        _one("nvidia-smi on the host while the memory was held", host),
    ]


def _events(pods: list[Pod]) -> list[Exhibit]:
    return [
        _one(
            f"events of {pod.name} ({pod.phase})",
            "\n".join(f"{one.type:<8} {one.reason:<18} {one.source:<16} {one.message}" for one in pod.events),
        )
        for pod in pods
    ]


def _mechanism(evidence: Evidence) -> list[Exhibit]:
    seen = evidence.mechanism
    if seen is None:
        return []
    environment = "\n".join(f"{name}={value}" for name, value in sorted(seen.environment.items()))
    return [
        _one("environment", environment),
        _one("/etc/ld.so.preload", seen.preload or ""),
        _one("library", seen.library or ""),
        _one("stderr of a command in the pod", seen.stderr),
    ]


def _routes(evidence: Evidence) -> list[Exhibit]:
    lines = []
    for run in evidence.routes or ():
        got = (
            f"{run.result.allocated_mib} MiB, rc {run.result.rc}"
            if run.result
            else f"exit status {run.exit_status}"
        )
        error = run.result.error if run.result and run.result.error else ""
        lines.append(f"{run.route:<8} {routes.word(run):<13} {got} {error}")
    said = "\n".join(run.stdout.strip() for run in evidence.routes or ())
    return [_one("route by route", "\n".join(lines)), _one("output", said)]


def _sights(evidence: Evidence) -> list[Exhibit]:
    return [_data(f"container {one.container}", asdict(one)) for one in evidence.no_request or ()]


def _pods(*pods: Pod | None) -> list[Exhibit]:
    return _events([pod for pod in pods if pod is not None])


_MAKERS: dict[str, Callable[[Evidence], list[Exhibit]]] = {
    "driver": lambda e: [
        _data("cards as the host sees them", [asdict(card) for card in e.cards or ()]),
        _one("loaded kernel module", e.kernel_module or ""),
    ],
    "runtime": lambda e: [
        _data("containerd's rendered config", asdict(e.containerd) if e.containerd else None)
    ],
    "sole-provider": lambda e: [_data("other providers", asdict(e.providers) if e.providers else None)],
    "scheduler-version": lambda e: [
        _one("images of the running kube-scheduler", "\n".join(e.scheduler_images or ())),
        _one("API server", e.server_version or ""),
    ],
    "webhook": lambda e: [_data("admission webhook", asdict(e.webhook) if e.webhook else None)],
    "registered": lambda e: [
        _one("hami.io/node-nvidia-register", e.registration.raw if e.registration else ""),
        _one("hami.io/node-handshake", (e.registration.handshake or "") if e.registration else ""),
    ],
    "allocatable": lambda e: [_one("nvidia.com/gpu", "" if e.allocatable is None else str(e.allocatable))],
    "co-resident": lambda e: _events(list(e.share_pods or ())),
    "slice-visible": lambda e: [
        _one("nvidia-smi in the pod", e.view.text if e.view else ""),
        _one("nvidia-smi on the host, both slices full", e.host_smi_text),
    ],
    "refused": lambda e: _probe(e.probe),
    "neighbour": lambda e: _probe(e.neighbour),
    "control": lambda e: _probe(e.control),
    "pending": lambda e: _pods(e.overask_pod),
    "pending-control": lambda e: _pods(e.pending_control),
    "mechanism": _mechanism,
    "routes": _routes,
    "no-request": _sights,
    "durable": lambda e: [_data("after the restart", asdict(e.durable) if e.durable else None)],
}
