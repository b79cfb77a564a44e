"""The report as plain data: docs/report.schema.json describes it, and every other form is made from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.evidence import Event, Evidence
from hami_k3s.isolation.outcome import CardOutcome, HostOutcome
from hami_k3s.isolation.parse import find_out_of_memory, read_event
from hami_k3s.isolation.tolerances import TOLERANCES
from hami_k3s.isolation.verdict import Status, Verdict, worst_of
from hami_k3s.reports.exhibits import exhibits
from hami_k3s.reports.picture import picture

SCHEMA_VERSION = 2
_ABOUT = {claim.id: claim for claim in CLAIMS}


def fleet(
    outcomes: Sequence[HostOutcome],
    *,
    started: datetime,
    finished: datetime | None,
    rerun: str | None,
    trouble: str = "",
) -> dict[str, Any]:
    """report.json: every host of the run, and one word for all of them.

    + finished: None while hosts are still measured, or when the run was interrupted
    + rerun: the command that looks again at the hosts that do not hold
    """
    hosts = [host(outcome) for outcome in outcomes]
    return {
        "schema_version": SCHEMA_VERSION,
        "started": stamp(started),
        "finished": stamp(finished) if finished else None,
        "complete": finished is not None and not trouble,
        "trouble": trouble,
        "outcome": worst_of(outcome.status for outcome in outcomes).value,
        "counts": _counts([verdict for outcome in outcomes for verdict in outcome.verdicts]),
        "rerun": rerun,
        "tolerances": [asdict(tolerance) for tolerance in TOLERANCES],
        "hosts": hosts,
    }


def host(outcome: HostOutcome) -> dict[str, Any]:
    """One host; also the whole of `<host>.json`."""
    node = [verdict(one, None) for one in outcome.node_verdicts]
    cards = [verdict(one, card.evidence.card_uuid) for card in outcome.cards for one in card.verdicts]
    return {
        "schema_version": SCHEMA_VERSION,
        "host": outcome.host,
        "node": outcome.node,
        "started": stamp(outcome.started) if outcome.started else None,
        "finished": stamp(outcome.finished) if outcome.finished else None,
        "outcome": outcome.status.value,
        "trouble": outcome.trouble,
        "counts": _counts(outcome.verdicts),
        "versions": dict(outcome.versions),
        "verdicts": [*node, *cards],
        "cards": [_card(card) for card in outcome.cards],
        "not_tested": [asdict(one) for one in outcome.not_tested],
        "exhibits": exhibits(outcome.cards[0].evidence, "node") if outcome.cards else {},
    }


def verdict(one: Verdict, card: str | None) -> dict[str, Any]:
    """One claim's outcome, with what is claimed."""
    about = _ABOUT[one.claim]
    return {
        **asdict(one),
        "status": one.status.value,
        "statement": about.statement,
        "proof": about.proof,
        "lab_step": about.step,
        "scope": about.scope,
        "card": card,
    }


def file_name(host: str) -> str:
    """The host as a file name. A name that had to be changed gets a mark, so that two hosts stay two files."""
    safe = re.sub(r"[^A-Za-z0-9._@-]", "_", host).lstrip(".")[:100] or "host"
    # The fleet's own file must not be a host's.
    if safe == host and safe.lower() not in ("report", "junit"):
        return safe
    return f"{safe}-{sha256(host.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def stamp(moment: datetime) -> str:
    """`2026-07-07T10:25:15Z`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    return {status.value: sum(one.status is status for one in verdicts) for status in Status}


def _card(outcome: CardOutcome) -> dict[str, Any]:
    evidence = outcome.evidence
    card = outcome.card
    return {
        "uuid": evidence.card_uuid,
        "card": asdict(card) if card else None,
        "outcome": outcome.status.value,
        "plan": asdict(evidence.plan) if evidence.plan else None,
        "memory": picture(evidence),
        "lab": _lab(evidence),
        "exhibits": exhibits(evidence, "card"),
        "evidence": asdict(evidence),
    }


def _lab(evidence: Evidence) -> dict[str, Any]:
    """What the lab shows as its proof: two views of nvidia-smi, HAMi-core's line, the events."""
    line = find_out_of_memory(evidence.probe.stderr) if evidence.probe else None
    pods = [*(evidence.share_pods or ()), *filter(None, (evidence.overask_pod, evidence.pending_control))]
    return {
        "nvidia_smi_host": evidence.host_smi_text or None,
        "nvidia_smi_pod": evidence.view.text if evidence.view else None,
        "hami_core_line": line.line if line else None,
        "events": {pod.name: [_event(event) for event in pod.events] for pod in pods},
    }


def _event(event: Event) -> dict[str, Any]:
    return {**asdict(event), "meaning": read_event(event).sentence}
