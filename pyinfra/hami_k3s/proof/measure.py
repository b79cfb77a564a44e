"""The whole measurement on one host. It always gives an outcome and always cleans up."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from gevent.pool import Pool  # type: ignore[import-untyped]
from pyinfra import logger
from pyinfra.api import Host

from hami_k3s import gate
from hami_k3s.facts.k3s import K3s
from hami_k3s.isolation.claims import unmet
from hami_k3s.isolation.evidence import Card, Evidence
from hami_k3s.isolation.outcome import HostOutcome, NotTested, decide
from hami_k3s.isolation.parse import parse_handshake
from hami_k3s.proof import card as one_card
from hami_k3s.proof import durable, pods, standing, versions
from hami_k3s.proof.measurement import Measurement
from hami_k3s.proof.pods import Space
from hami_k3s.settings import Settings
from hami_k3s.waits import Look, until

# Each card uses one SSH channel at a time; sshd allows ten on a connection (MaxSessions) and may run others' too.
AT_ONCE = 4
YOUNG = 180  # seconds after the start of k3s in which the node may still be on its way back

_open: list[Space] = []


def measure(host: Host, settings: Settings) -> HostOutcome:
    """Everything that verify measures on this host. Pods are made only where the claims before them hold."""
    started = datetime.now(UTC)
    parts: dict[str, Any] = {}
    errors: dict[str, str] = {}
    evidences: list[Evidence] = []
    left_out: list[NotTested] = []
    node = Measurement(host, settings, parts, errors)
    try:
        node.say("reading the host, the cluster and HAMi")
        node.take(standing.measure(host, settings))
        _wait_for_pool(node)
        evidences, left_out = _cards(node)
    except Exception as error:  # a bug must end as "could not be measured", with a report, not as a green run
        logger.exception("verify failed on %s", host.name)
        node.errors["share_pods"] = node.errors["no_request"] = _bug(error)
        evidences = evidences or [node.evidence()]
    if not settings.verify_durable:
        left_out.append(NotTested("durable", "it restarts k3s: set verify_durable to true"))
    left_out.append(NotTested("compute shares (nvidia.com/gpucores)", "this project measures memory only"))
    seen = {**versions.read(host, node.parts.get("node") or ""), "hami_chart": settings.hami_chart_version}
    return decide(host.name, evidences, tuple(left_out), seen, started, datetime.now(UTC))


def _wait_for_pool(node: Measurement) -> None:
    """HAMi's scheduler takes a node whose plugin was away (a reboot) out of its pool, and gives it back a minute later."""

    def out() -> bool:
        found = node.parts.get("registration")
        return found is not None and parse_handshake(found.handshake).state == "deleted"

    def look() -> Look:
        node.take(standing.measure(node.host, node.settings))
        return (
            Look("wait", "HAMi has not given the node back to its pool") if out() else Look("done", "it has")
        )

    age = node.host.get_fact(K3s, api=False).age_s if out() else None
    if age is not None and age < YOUNG:
        limit = min(YOUNG, node.settings.verify_timeout)
        until(node.host, f"k3s was started {age:.0f} s ago", limit, look, "verify_timeout")


def _bug(error: Exception) -> str:
    return f"verify itself failed: {type(error).__name__}: {error}"


def _cards(node: Measurement) -> tuple[list[Evidence], list[NotTested]]:
    """One evidence a card, and the cards that were not tested."""
    cards, left_out, problem = choose(node.parts.get("cards") or (), node.settings.verify_cards)
    if not problem and node.parts.get("node_ready") is False:
        problem = f"node {node.parts['node']} is not Ready"
    reason = problem or unmet("co-resident", node.evidence())
    if problem:
        node.errors["share_pods"] = node.errors["no_request"] = problem
    if not cards or reason:
        return [node.evidence()], [*left_out, *(NotTested(label(card), reason) for card in cards)]
    if left := pods.remove_leftovers(node.host, node.parts["node"]):
        node.say(f"removed what an earlier run left: {left}")
    runs = [_for(node, card, len(cards) > 1) for card in cards]
    for run, card in zip(runs, cards, strict=True):
        one_card.sizes(run, card)
    # A pod without a request has no card: one for the whole node is enough.
    sighted = next((run for run in runs if "plan" in run.parts), runs[0])
    sighted.sees = True
    pool = Pool(AT_ONCE)
    done = list(pool.imap(lambda pair: _prove(*pair), zip(runs, cards, strict=True)))
    for run in runs:
        run.put("no_request", sighted.parts.get("no_request"), sighted.errors.get("no_request", ""))
    if node.settings.verify_durable:
        durable.prove([(run, card) for run, card, ok in zip(runs, cards, done, strict=True) if ok], keep)
    busy = [
        NotTested(label(card), run.errors["plan"])
        for run, card in zip(runs, cards, strict=True)
        if "plan" in run.errors
    ]
    return [run.evidence() for run in runs], [*left_out, *busy]


def choose(cards: tuple[Card, ...], wanted: str | list[str]) -> tuple[tuple[Card, ...], list[NotTested], str]:
    """(cards to prove, cards left out and why, why there is none)."""
    if wanted == "all":
        return cards, [], ""
    if wanted == "first":
        chosen = cards[:1]
        why = "verify_cards is first"
    else:
        chosen = tuple(card for card in cards if card.uuid in wanted)
        why = "verify_cards does not name it"
    left_out = [NotTested(label(card), why) for card in cards if card not in chosen]
    problem = "verify_cards names no card of this host" if cards and not chosen else ""
    return chosen, left_out, problem


def label(card: Card) -> str:
    """A card by its number, name and UUID."""
    return f"card {card.index} ({card.name}, {card.uuid})"


def _for(node: Measurement, card: Card, several: bool) -> Measurement:
    mark = f"card {card.index}: " if several else ""
    return Measurement(node.host, node.settings, {**node.parts, "card_uuid": card.uuid}, node.errors, mark)


def _prove(now: Measurement, card: Card) -> bool:
    """One card. True when its pods came as far as a plan."""
    try:
        if "plan" not in now.parts:
            return False
        with keep(now) as space:
            one_card.prove(now, space, card, now.parts["plan"])
        return True
    except Exception as error:
        logger.exception("verify failed on %s, card %s", now.host.name, card.uuid)
        now.errors |= dict.fromkeys(("share_pods", "no_request"), _bug(error))
        now.parts["share_pods"] = None
        return False


class keep:
    """A namespace of the run's own that is removed whatever happens."""

    def __init__(self, now: Measurement) -> None:
        self.now = now
        self.space = pods.space(now.host, now.parts["node"])

    def __enter__(self) -> Space:
        _open.append(self.space)
        return self.space

    def __exit__(self, *_: object) -> None:
        removed = self.space.remove()
        if removed.ok:
            self.now.say("removed the pods")
        else:
            why = removed.stderr.strip()
            self.now.say(f"namespace {self.space.name} could not be removed, the next run will: {why}")
        _open.remove(self.space)


def _interrupted() -> None:
    """Ctrl-C leaves the greenlets behind that would have removed the pods."""
    for space in _open:
        sys.stderr.write(f"interrupted: removing namespace {space.name} on {space.host.name}\n")
        sys.stderr.flush()
        space.remove()


gate.before_exit(_interrupted)
