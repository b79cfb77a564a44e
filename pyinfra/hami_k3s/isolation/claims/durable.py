"""All of it holds after a restart of k3s and a daemon-reload.

A pod from before must keep its card and its limit (a daemon-reload has taken cards from containers), a pod from after
must get both, and the node's own claims must hold again.
"""

from __future__ import annotations

from dataclasses import replace

from hami_k3s.isolation.claims import mechanism, refused, slice_visible
from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Durable, Evidence, NotMeasuredError
from hami_k3s.isolation.verdict import Status, Verdict, failed, passed, unknown

ID = "durable"
EXPECTED = "before and after a restart of k3s: the same pod runs, a new one starts, both held to their slice"


def decide(evidence: Evidence) -> Verdict:
    """The claims mechanism, slice-visible and refused again, for a pod from before and one from after."""
    seen = evidence.measured("durable", evidence.durable)
    if seen.lost:
        why = "the node did not come back as it was"
        return failed(
            ID, EXPECTED, "; ".join(seen.lost), why, "see that claim; `journalctl -u k3s` of the restart"
        )
    survivor = seen.survivor
    if survivor is None or survivor.uid != seen.survivor_before.uid or survivor.phase != "Running":
        now = f"{survivor.phase} {survivor.reason}".strip() if survivor else "gone"
        why = "a restart of k3s must leave running pods alone"
        return failed(
            ID, EXPECTED, f"{seen.survivor_before.name} is {now}", why, "look at `kubectl get events -A`"
        )
    if seen.blind:
        why = "a container lost its card, as after a daemon-reload with an NVIDIA runtime that hides devices from systemd"
        return failed(
            ID,
            EXPECTED,
            "; ".join(seen.blind),
            why,
            "set toolkit_version to a later release; recreate the pods",
        )
    for name, part, claims in _again(evidence, seen):
        for claim in claims:
            try:
                verdict = claim.decide(part)
            except NotMeasuredError as problem:
                return unknown(ID, EXPECTED, f"{name}: not measured", f"{claim.id}: {problem}")
            if verdict.status is Status.ERROR:
                return unknown(
                    ID, EXPECTED, f"{name}: {verdict.observed}", f"{claim.id}: {verdict.why}", verdict.fix
                )
            if not verdict.status.holds:
                why = f"{claim.id} does not hold for {name}: {verdict.why}"
                return failed(ID, EXPECTED, f"{name}: {verdict.observed}", why, verdict.fix)
    observed = f"back after {seen.seconds:.0f} s; {survivor.name} kept its card and its limit, {_name(seen)} got both"
    return passed(ID, EXPECTED, observed)


def _again(evidence: Evidence, seen: Durable) -> list[tuple[str, Evidence, tuple[Claim, ...]]]:
    before = replace(evidence, view=seen.survivor_view, probe=seen.survivor_probe)
    after = replace(
        evidence, view=seen.newcomer_view, probe=seen.newcomer_probe, mechanism=seen.newcomer_mechanism
    )
    return [
        (seen.survivor_before.name, before, (slice_visible.CLAIM, refused.CLAIM)),
        (_name(seen), after, (mechanism.CLAIM, slice_visible.CLAIM, refused.CLAIM)),
    ]


def _name(seen: Durable) -> str:
    return seen.newcomer.name if seen.newcomer else "the new pod"


PAGE = """\
- Measured: only with `verify_durable: true`, because it restarts k3s and reloads systemd. A pod from before must
  still run, see its slice and be refused past it; a new pod must get both; the claims of the node must hold again.
- Fails: the old pod was restarted or lost its card (a daemon-reload can do that), a new pod is not limited, or the
  node did not come back.
- Do: see the claim that it names; `journalctl -u k3s` of the restart.
"""

CLAIM = Claim(
    id=ID,
    statement="All of it holds after a restart of k3s and a daemon-reload.",
    proof="a pod from before and one from after the restart, and the node's claims again; only with verify_durable",
    step="-",
    decide=decide,
    page=PAGE,
    needs=("refused",),
)
