"""docs/claims.md says what the code does."""

import re
from pathlib import Path

from hami_k3s.isolation import plan
from hami_k3s.isolation.claims import CLAIMS, refused, registered, slice_visible
from hami_k3s.isolation.verdict import Status

TEXT = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")


def section(claim: str) -> str:
    match = re.search(rf"^## {claim}\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
    assert match, f"docs/claims.md has no section {claim}"
    return match.group(1)


def test_every_claim_is_described_in_order() -> None:
    headings = re.findall(r"^## (\S+)$", TEXT, re.MULTILINE)
    assert headings == [claim.id for claim in CLAIMS]
    for claim in CLAIMS:
        text = section(claim.id)
        assert f"**{claim.statement}**" in text
        needs = re.search(r"Needs ([^.]*)\.", text)
        assert tuple(needs.group(1).split(" and ") if needs else ()) == claim.needs
        assert "- Measured:" in text
        assert "- Fails:" in text


def test_the_words_and_the_tolerances_are_the_codes() -> None:
    assert all(f"| {status} |" in TEXT for status in Status)
    assert f"{registered.MEMORY_TOLERANCE:.0%}".replace("%", " %") in section("registered")
    assert f"{slice_visible.TOLERANCE:.0%}".replace("%", " %") in section("slice-visible")
    assert f"slice - {refused.CONTEXT_TOLERANCE_MIB} MiB" in section("refused")
    assert refused.ROOM_FACTOR == 2
    assert "two steps free" in section("refused")
    assert f"under {plan.MIN_SLICE_MIB} MiB" in TEXT
    assert f"less than {plan.ROOM_MIB} MiB" in TEXT
    assert f"up to {plan.CONTEXT_MIB} MiB" in TEXT
    assert f"at least {plan.MIN_STEPS} steps" in TEXT


def test_the_slices_are_the_plans() -> None:
    for gigabytes, size in ((32, 8000), (16, 4000), (8, 2000)):
        assert re.search(rf"{size}[^.]*?{gigabytes} GB", TEXT)
        assert plan.plan(gigabytes * 1000 + 100, gigabytes * 1000).slice_mib == size
