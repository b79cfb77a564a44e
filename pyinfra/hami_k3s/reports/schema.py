"""Is a document a report? Checked against docs/report.schema.json, with the part of JSON Schema which that file uses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_NAME = "report.schema.json"
KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
KNOWN = {"type", "const", "enum", "pattern", "minimum", "required", "properties", "additionalProperties", "items", "oneOf",
         "$ref"}  # fmt: skip
NOTES = {"$schema", "$defs", "title", "description"}


@cache
def schema() -> dict[str, Any]:
    """A wheel carries the file inside the package; a checkout has it in docs/."""
    file = next(path for path in (_HERE / _NAME, _HERE.parents[2] / "docs" / _NAME) if path.is_file())
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def problems(document: object, rule: dict[str, Any] | None = None, where: str = "") -> Iterator[str]:
    """What is wrong, each with its place (`hosts[3].outcome`); nothing for a report."""
    rule = schema() if rule is None else rule
    if unknown := rule.keys() - KNOWN - NOTES:
        raise NotImplementedError(f"{_NAME} uses {', '.join(unknown)}, which is not checked here")
    if reference := rule.get("$ref"):
        yield from problems(document, schema()["$defs"][reference.removeprefix("#/$defs/")], where)
    yield from (f"{where or 'the document'} {reason}" for reason in _value(document, rule))
    if "oneOf" in rule and sum(not any(problems(document, one, where)) for one in rule["oneOf"]) != 1:
        yield f"{where} is none of what it may be"
    if isinstance(document, dict):
        yield from _members(document, rule, where)
    if isinstance(document, list) and "items" in rule:
        for number, one in enumerate(document):
            yield from problems(one, rule["items"], f"{where}[{number}]")


def _value(value: object, rule: dict[str, Any]) -> Iterator[str]:
    shown = json.dumps(value)[:60]
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"is {shown}, not {' or '.join(kinds)}"
    if "const" in rule and value != rule["const"]:
        yield f"is {shown}, not {rule['const']!r}"
    if "enum" in rule and value not in rule["enum"]:
        yield f"is {shown}, not one of {', '.join(map(str, rule['enum']))}"
    if "pattern" in rule and isinstance(value, str) and not re.search(rule["pattern"], value):
        yield f"is {shown}, which does not look like {rule['pattern']}"
    if "minimum" in rule and _is(value, "number") and value < rule["minimum"]:
        yield f"is {shown}, less than {rule['minimum']}"


def _is(value: object, kind: str) -> bool:
    # JSON's true is no number.
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _members(value: dict[str, Any], rule: dict[str, Any], where: str) -> Iterator[str]:
    known, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    for name in rule.get("required", []):
        if name not in value:
            yield f"{where or 'the document'} has no {name}"
    for name, one in value.items():
        place = f"{where}.{name}" if where else name
        if name in known:
            yield from problems(one, known[name], place)
        elif isinstance(others, dict):
            yield from problems(one, others, place)
        elif not others:
            yield f"{place} is not known"
