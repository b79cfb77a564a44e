"""How the device plugin writes a node's cards down, in each version's format."""

import json
from dataclasses import dataclass
from typing import Any

ANNOTATION = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"


@dataclass(frozen=True)
class Card:
    uuid: str
    index: int
    count: int
    memory: int  # MiB, scaled
    cores: int
    kind: str
    healthy: bool
    numa: int = 0
    mode: str = "hami-core"


def kind_of(name: str, version: tuple[int, int, int]) -> str:
    """Before 2.9 the prefix was always there, so that one reads `NVIDIA-NVIDIA ...`."""
    if version >= (2, 9, 0) and "NVIDIA" in name:
        return name
    return f"NVIDIA-{name}"


def encode(cards: list[Card], version: tuple[int, int, int]) -> str:
    if version >= (2, 8, 0):
        return json.dumps([_json(c) for c in cards], separators=(",", ":"))
    return "".join(_text(c, version) for c in cards)


def _json(card: Card) -> dict[str, Any]:
    """Every field is left out when it is zero or false: a card that is not healthy has no `health` key."""
    fields: dict[str, Any] = {
        "id": card.uuid,
        "index": card.index,
        "count": card.count,
        "devmem": card.memory,
        "devcore": card.cores,
        "type": card.kind,
        "numa": card.numa,
        "mode": card.mode,
        "health": card.healthy,
    }
    return {**{k: v for k, v in fields.items() if v}, "devicepairscore": {}}


def _text(card: Card, version: tuple[int, int, int]) -> str:
    health = "true" if card.healthy else "false"
    fields = [card.uuid, card.count, card.memory, card.cores, card.kind, card.numa, health]
    if version >= (2, 5, 0):
        fields += [card.index, card.mode]
    return ",".join(str(f) for f in fields) + ":"


def decode(text: str) -> list[Card]:
    if text.startswith("["):
        return [
            Card(
                uuid=d["id"],
                index=d.get("index", 0),
                count=d.get("count", 0),
                memory=d.get("devmem", 0),
                cores=d.get("devcore", 0),
                kind=d.get("type", ""),
                healthy=d.get("health", False),
                numa=d.get("numa", 0),
                mode=d.get("mode", ""),
            )
            for d in json.loads(text)
        ]
    cards = []
    for number, entry in enumerate(e for e in text.split(":") if e):
        parts = entry.split(",")
        index = int(parts[7]) if len(parts) > 7 else number
        count, memory, cores, numa = int(parts[1]), int(parts[2]), int(parts[3]), int(parts[5])
        cards.append(Card(parts[0], index, count, memory, cores, parts[4], parts[6] == "true", numa))
    return cards
