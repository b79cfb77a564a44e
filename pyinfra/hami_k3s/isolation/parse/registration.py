"""hami.io/node-nvidia-register and hami.io/node-handshake in the formats of every HAMi release.

2.4.x       ID,count,devmem,devcore,type,numa,health:             text, one entry a device
2.5 - 2.7   ID,count,devmem,devcore,type,numa,health,index,mode:  text
2.8 and on  [{"id":...,"count":...}]                              JSON

In the JSON every field that is zero, false or empty is left out: a device without `health` is unhealthy,
one without `index` or `numa` has 0. Unknown keys come and go with releases and are ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hami_k3s.isolation.evidence import RegisteredDevice
from hami_k3s.isolation.parse.errors import ParseError

_WHAT = "hami.io/node-nvidia-register"


def parse_registration(text: str) -> tuple[RegisteredDevice, ...]:
    """The registered devices, in the annotation's order; an empty text registers nothing."""
    text = text.strip()
    if not text:
        return ()
    return _from_json(text) if text.startswith(("[", "{")) else _from_text(text)


def _from_json(text: str) -> tuple[RegisteredDevice, ...]:
    try:
        entries = json.loads(text)
    except ValueError:
        raise ParseError(_WHAT, text, "not JSON") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ParseError(_WHAT, text, "not a list of devices")
    return tuple(_json_device(entry, text) for entry in entries)


def _json_device(entry: dict[str, Any], text: str) -> RegisteredDevice:
    if not isinstance(entry.get("id"), str) or not entry["id"]:
        raise ParseError(_WHAT, text, "a device without id")
    try:
        return RegisteredDevice(
            uuid=entry["id"],
            count=int(entry.get("count", 0)),
            memory_mib=int(entry.get("devmem", 0)),
            cores=int(entry.get("devcore", 0)),
            type=str(entry.get("type", "")),
            numa=int(entry.get("numa", 0)),
            healthy=entry.get("health") is True,
            index=int(entry.get("index", 0)),
            mode=str(entry.get("mode", "")),
        )
    except (TypeError, ValueError):
        raise ParseError(_WHAT, text, "a number that is none") from None


def _from_text(text: str) -> tuple[RegisteredDevice, ...]:
    return tuple(_text_device(entry, text) for entry in text.split(":") if entry.strip())


def _text_device(entry: str, text: str) -> RegisteredDevice:
    fields = [field.strip() for field in entry.split(",")]
    if len(fields) not in (7, 9):
        raise ParseError(_WHAT, text, f"{len(fields)} fields where a device has 7 or 9")
    uuid, count, memory, cores, model, numa, health = fields[:7]
    index, mode = fields[7:] or ("0", "")
    if not uuid or health.lower() not in ("true", "false"):
        raise ParseError(_WHAT, text, "no id, or a health that is neither true nor false")
    try:
        return RegisteredDevice(
            uuid=uuid,
            count=int(count),
            memory_mib=int(memory),
            cores=int(cores),
            type=model,
            numa=int(numa),
            healthy=health.lower() == "true",
            index=int(index),
            mode=mode,
        )
    except ValueError:
        raise ParseError(_WHAT, text, "a number that is none") from None


@dataclass(frozen=True)
class Handshake:
    """`state` is requesting, deleted, reported, absent or unknown; `time` is the text after it."""

    state: str
    time: str = ""


def parse_handshake(text: str | None) -> Handshake:
    """hami.io/node-handshake. Only `deleted` is a problem: since 2.8 an old `requesting` is normal."""
    if not text or not text.strip():
        return Handshake("absent")
    for word, sign in (("Requesting", "_"), ("Deleted", "_"), ("Reported", " ")):
        if text.startswith(word + sign):
            return Handshake(word.lower(), text[len(word) + 1 :].strip())
    return Handshake("unknown", text.strip())
