"""report.html and report.md: whole, in both languages, nothing fetched, and hosts' words are text."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.evidence import Event
from hami_k3s.isolation.outcome import unreached
from hami_k3s.reports import terminal
from hami_k3s.reports.plain import block, plain
from tests.recorded.lab import OVERASK, PROBE, evidence
from tests.recorded.outcomes import NOT_ENFORCED, outcome, written

HOSTILE = "\x1b[2J\x1b]0;title\x07\x1b[31m<b>red</b>\x1b[0m\r\nnew\x08line\u202egnp\x9b1m | `x` <script>alert(1)</script>"


class Tags(HTMLParser):
    """What a browser would see as markup."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_whole_and_fetches_nothing(tmp_path: Path, language: str) -> None:
    run, _ = written(tmp_path, outcome(NOT_ENFORCED), unreached("rtx-2", "ssh: no route"), language=language)
    text = (run.directory / "report.html").read_text(encoding="utf-8")
    page = Tags(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "form"}
    assert not [
        value for name, value in page.attributes if name in ("src", "href") and not value.startswith("#")
    ]
    assert "url(" not in text
    assert "@import" not in text
    for claim in CLAIMS:
        assert claim.id in page.text
    assert "HAMI-core ERROR" in page.text
    assert "CUDA_DEVICE_MEMORY_LIMIT_0" in page.text  # the way around the limit is said
    assert ("这是什么，不是什么" in page.text) is (language == "zh")
    assert ("What this is, and what it is not" in page.text) is (language == "en")
    markdown = (run.directory / "report.md").read_text(encoding="utf-8")
    assert "| **refused** " in markdown
    assert "--limit rtx-1 --limit rtx-2" in markdown


def test_every_word_of_the_page_has_its_chinese() -> None:
    from hami_k3s.reports.words import ENGLISH, words
    from hami_k3s.reports.words_zh import CHINESE, CLAIMS_ZH, TOLERANCES_ZH

    assert set(CHINESE) == set(ENGLISH)
    assert set(CLAIMS_ZH) == {claim.id for claim in CLAIMS}
    assert set(TOLERANCES_ZH) == set(words("en")["tolerance_why"])
    assert len(CHINESE["is"]) == len(ENGLISH["is"])


def test_text_from_hosts_cannot_move_the_cursor_or_become_markup(tmp_path: Path) -> None:
    assert plain("\x1b[31mred\x1b[0m\r\nnew\x08line\u202egnp\x9b1m") == "red new?line?gnp?1m"
    assert block("a\x1b[31mb\n\tc\x00") == "ab\n    c?"
    found = evidence(
        overask_pod=replace(OVERASK, events=(Event("Failed", HOSTILE, HOSTILE, "Warning"),)),
        probe=replace(PROBE, stderr=PROBE.stderr + HOSTILE),
        host_smi_text=HOSTILE,
        node=HOSTILE,
    )
    mine = outcome(found, HOSTILE)
    text = terminal.render(mine)
    assert all(char.isprintable() or char == "\n" for char in text)
    run, whole = written(tmp_path, mine)
    assert whole["hosts"][0]["host"] == HOSTILE
    assert all(32 <= byte < 127 or byte == 10 for byte in (run.directory / "report.json").read_bytes())
    page = Tags((run.directory / "report.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    assert all(char.isprintable() or char in "\n\u202f" for char in page.text)
    markdown = (run.directory / "report.md").read_text(encoding="utf-8")
    # In a code block (four spaces) markup is text; everywhere else it is escaped.
    assert [
        line for line in markdown.splitlines() if "<script>" in line and not line.startswith("    ")
    ] == []
    suite = ET.parse(run.directory / "junit.xml").getroot()[0]
    assert "<script>alert(1)</script>" in suite.attrib["name"]
