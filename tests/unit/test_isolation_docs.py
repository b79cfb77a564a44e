"""docs/claims.md is what the claims say of themselves, and says what the code does."""

import re
from pathlib import Path

import pytest

from hami_k3s.isolation import page, plan
from hami_k3s.isolation.claims import CLAIMS, refused, registered, slice_visible
from hami_k3s.isolation.verdict import Status

TEXT = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")


def section(claim: str) -> str:
    match = re.search(rf"^## {claim}\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
    assert match, f"docs/claims.md has no section {claim}"
    return match.group(1)


def test_the_page_is_generated() -> None:
    assert page.markdown() == TEXT, "run `make docs`"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_claim_says_what_is_measured_when_it_fails_and_what_to_do(claim) -> None:
    text = section(claim.id)
    assert f"**{claim.statement}**" in text
    for word in ("- Measured:", "- Fails:"):
        assert word in text


def test_the_words_and_the_tolerances_are_the_codes() -> None:
    assert all(f"| {status} |" in TEXT for status in Status)
    assert f"{registered.MEMORY_TOLERANCE:.0%}".replace("%", " %") in section("registered")
    assert f"{slice_visible.TOLERANCE:.0%}".replace("%", " %") in section("slice-visible")
    assert f"slice - {refused.CONTEXT_TOLERANCE_MIB} MiB" in section("refused")
    assert refused.ROOM_FACTOR == 2
    assert "two steps free" in section("refused")


def test_the_slices_are_the_plans() -> None:
    for gigabytes, size in ((32, 8000), (16, 4000), (8, 2000)):
        assert re.search(rf"{size}[^.]*?{gigabytes} GB", TEXT)
        assert plan.plan(gigabytes * 1000 + 100, gigabytes * 1000).slice_mib == size
