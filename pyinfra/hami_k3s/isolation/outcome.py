"""What one host ends with: the node's claims once, the card's claims for each card, and what was not tested and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hami_k3s.isolation.claims import CLAIMS, judge
from hami_k3s.isolation.evidence import Card, Evidence
from hami_k3s.isolation.verdict import Status, Verdict, unknown, worst

SCOPE = {claim.id: claim.scope for claim in CLAIMS}


@dataclass(frozen=True)
class NotTested:
    """A card or a claim that nobody measured, and the reason."""

    what: str
    why: str


@dataclass(frozen=True)
class CardOutcome:
    """The claims of one card. `evidence.card_uuid` is None when the proof did not get as far as a card."""

    evidence: Evidence
    verdicts: tuple[Verdict, ...]

    @property
    def status(self) -> Status:
        return worst(list(self.verdicts))

    @property
    def card(self) -> Card | None:
        """The card as the host sees it."""
        cards = self.evidence.cards or ()
        return next((card for card in cards if card.uuid == self.evidence.card_uuid), None)


@dataclass(frozen=True)
class HostOutcome:
    """One host of the fleet. `trouble` is set when verify did not come to an end there."""

    host: str
    node: str | None = None
    node_verdicts: tuple[Verdict, ...] = ()
    cards: tuple[CardOutcome, ...] = ()
    not_tested: tuple[NotTested, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)
    started: datetime | None = None
    finished: datetime | None = None
    trouble: str = ""

    @property
    def verdicts(self) -> list[Verdict]:
        """All of them, in the order of the claims, card by card."""
        return [*self.node_verdicts, *(verdict for card in self.cards for verdict in card.verdicts)]

    @property
    def status(self) -> Status:
        return worst(self.verdicts)


def decide(
    host: str,
    evidences: list[Evidence],
    not_tested: tuple[NotTested, ...] = (),
    versions: Mapping[str, str | None] | None = None,
    started: datetime | None = None,
    finished: datetime | None = None,
) -> HostOutcome:
    """Judge one evidence a card; all have the node's parts in common."""
    judged = [(evidence, judge(evidence)) for evidence in evidences]
    cards = tuple(
        CardOutcome(evidence, tuple(one for one in verdicts if SCOPE[one.claim] == "card"))
        for evidence, verdicts in judged
    )
    node = tuple(one for one in judged[0][1] if SCOPE[one.claim] == "node") if judged else ()
    first = evidences[0].node if evidences else None
    return HostOutcome(host, first, node, cards, not_tested, versions or {}, started, finished)


def unreached(host: str, why: str, started: datetime | None = None) -> HostOutcome:
    """A host on which nothing was measured. Every claim is there, as an error: a reader of the files misses none."""
    verdicts = [
        unknown(claim.id, claim.statement, "not measured", why) for claim in CLAIMS if claim.id != "durable"
    ]
    node = tuple(one for one in verdicts if SCOPE[one.claim] == "node")
    card = CardOutcome(
        Evidence(host, errors={"host": why}), tuple(one for one in verdicts if one not in node)
    )
    return HostOutcome(host, node_verdicts=node, cards=(card,), started=started, trouble=why)
