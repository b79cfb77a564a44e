"""The fleet that `up --fleet` boots: the shipped files, and what is wrong in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rehearsal import plan
from rehearsal.errors import RehearsalError

FLEETS = Path(__file__).resolve().parents[2] / "examples" / "fleets"


def read(tmp_path: Path, text: str) -> plan.Plan:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    return plan.read(file)


def test_the_shipped_fleets() -> None:
    ha = plan.read(FLEETS / "ha.yaml")
    assert [one["name"] for one in ha.members] == [
        "solo-1",
        "solo-2",
        "s1",
        "s2",
        "s3",
        "a1",
        "a2",
        "a3",
        "a4",
    ]
    assert [len(one["cards"]) for one in ha.members] == [1, 2, 0, 0, 0, 1, 1, 1, 2]
    assert len({one["address"] for one in ha.members}) == 9
    assert [one["node"] for one in ha.shape["clusters"][0]["servers"]] == ["s1", "s2", "s3"]
    small = plan.read(FLEETS / "small.yaml")
    assert [one["driver"] for one in small.members] == ["", "610.43.02", "580.159.04"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: [{name: a}, {name: a}]", "named more than once: a"),
        ("hosts: [{name: a, card: l5}]", "no card named 'l5'"),
        ("hosts: [{name: a, cards: 0}]", "cards: 0 is not 1 to 16"),
        ("hosts: [{name: A}]", "'A' is no name"),
        ("hosts: [{name: a, crad: l4}]", "unknown: crad"),
        ("hosts: [{name: a, faults: [migg]}]", "unknown fault 'migg'"),
        ("clusters: [{name: c, agents: [{name: a}]}]", "a cluster needs a server"),
        ("clusters: [{name: c, servers: [{name: a}]}]\nhosts: [{name: a}]", "named more than once: a"),
        ("hosts: a", "hosts is no list"),
        ("- a", "the file is no mapping"),
        ("{}", "0 nodes"),
        ("hosts: [", "fleet.yaml"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RehearsalError, match=r"fleet\.yaml") as wrong:
        read(tmp_path, text)
    assert said in str(wrong.value)
