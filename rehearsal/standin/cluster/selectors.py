"""Label and field selectors."""

import re
from typing import Any

from .problem import ProblemError

Labels = dict[str, str]


def split_terms(text: str) -> list[str]:
    """Terms of a selector: commas inside parentheses do not separate."""
    return [t.strip() for t in re.split(r",(?![^(]*\))", text) if t.strip()]


def match_text(text: str, labels: Labels) -> bool:
    return all(_term(term, labels) for term in split_terms(text))


def _term(term: str, labels: Labels) -> bool:
    found = re.fullmatch(r"([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)", term)
    if found:
        values = {v.strip() for v in found[3].split(",")}
        inside = labels.get(found[1]) in values
        return inside if found[2] == "in" else not inside
    for operator, wanted in (("!=", False), ("==", True), ("=", True)):
        if operator in term:
            key, value = term.split(operator, 1)
            return (labels.get(key.strip()) == value.strip()) is wanted
    if term.startswith("!"):
        return term[1:].strip() not in labels
    if not re.fullmatch(r"[\w./-]+", term):
        raise ProblemError(
            400, f"unable to parse requirement: found '{term}', expected: in, notin, =, ==, !=, gt, lt"
        )
    return term in labels


def match_labels(selector: dict[str, Any] | None, labels: Labels) -> bool:
    """A LabelSelector object. An empty one matches everything, a missing one nothing."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(match_expression(e, labels) for e in selector.get("matchExpressions") or [])


def match_expression(expression: dict[str, Any], labels: Labels) -> bool:
    key, operator = expression["key"], expression["operator"]
    values = expression.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "Exists":
        return key in labels
    return key not in labels


def field_value(obj: dict[str, Any], path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


ALIASES = {"reason": "reason", "source": "source.component", "reportingComponent": "reportingComponent"}


def match_fields(text: str, obj: dict[str, Any]) -> bool:
    for term in split_terms(text):
        negative = "!=" in term
        key, value = re.split(r"!=|==|=", term, maxsplit=1)
        actual = field_value(obj, ALIASES.get(key.strip(), key.strip()))
        if (actual == value.strip()) is negative:
            return False
    return True
