"""report.html and report.md: what a reader hands to somebody else. Values from hosts are escaped, nothing is fetched."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hami_k3s import templating
from hami_k3s.reports.plain import block, plain, short
from hami_k3s.reports.words import words

SYMBOLS = {"pass": "✓", "fail": "✗", "warn": "!", "skip": "–", "error": "?"}


def html(document: dict[str, Any], language: str) -> str:
    """One self-contained page."""
    return _environment(True).get_template("report.html").render(**_data(document, language))


def markdown(document: dict[str, Any], language: str) -> str:
    """The same for a ticket or a chat."""
    return _environment(False).get_template("report.md").render(**_data(document, language))


def cell(text: object) -> str:
    """Text for a Markdown table: markup in a host's words is shown, not obeyed."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", plain(str(text)))


def code(text: object) -> str:
    """Text between Markdown's backticks."""
    return f"`` {plain(str(text)).replace('`', chr(39))} ``"


def softly(text: object) -> Markup:
    """Places in long names where a narrow screen may break the line."""
    return Markup(re.sub(r"([/=,;:](?=\S))", r"\1<wbr>", str(escape(plain(str(text))))))


@cache
def _environment(escaped: bool) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templating.folder() / "report"),
        undefined=StrictUndefined,
        autoescape=escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        plain=plain, block=block, short=short, cell=cell, code=code, softly=softly, mib=_mib
    )
    return environment


def _data(document: dict[str, Any], language: str) -> dict[str, Any]:
    return {
        "report": document,
        "say": words(language),
        "language": "zh-CN" if language == "zh" else "en",
        "symbols": SYMBOLS,
        "of_node": _of_node,
        "of_card": _of_card,
        "worst_first": _worst_first,
    }


def _of_node(host: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in host["verdicts"] if one["scope"] == "node"]


def _of_card(host: dict[str, Any], uuid: str | None) -> list[dict[str, Any]]:
    return [one for one in host["verdicts"] if one["scope"] == "card" and one["card"] == uuid]


def _worst_first(hosts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = ["fail", "error", "skip", "warn", "pass"]
    return sorted(hosts, key=lambda host: order.index(host["outcome"]))


def _mib(mib: int | None) -> str:
    """`143 771 MiB`, with thin spaces."""
    return "–" if mib is None else f"{mib:,}".replace(",", "\u202f") + " MiB"
