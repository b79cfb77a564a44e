"""Which cards are proved, and how the two probes are called in a pod."""

from dataclasses import replace

import pytest

from hami_k3s.isolation.plan import plan
from hami_k3s.proof.measure import choose
from hami_k3s.proof.program import Program, of
from hami_k3s.settings import Settings, SettingsError, check
from tests.recorded.lab import CARD, OTHER_UUID, UUID

SECOND = replace(CARD, index=1, uuid=OTHER_UUID)
SIZES = plan(97887, 97200)


@pytest.mark.parametrize(
    ("wanted", "chosen", "left_out"),
    [
        ("all", [UUID, OTHER_UUID], []),
        ("first", [UUID], ["verify_cards is first"]),
        ([OTHER_UUID], [OTHER_UUID], ["verify_cards does not name it"]),
    ],
)
def test_cards_that_are_not_proved_are_listed_with_the_reason(
    wanted: str | list[str], chosen: list[str], left_out: list[str]
) -> None:
    cards, others, problem = choose((CARD, SECOND), wanted)
    assert [card.uuid for card in cards] == chosen
    assert [one.why for one in others] == left_out
    assert all("NVIDIA RTX PRO 6000" in one.what for one in others)
    assert problem == ""


def test_a_name_that_no_card_has_is_a_problem_and_not_an_empty_proof() -> None:
    cards, others, problem = choose((CARD,), ["GPU-none"])
    assert (cards, len(others)) == ((), 1)
    assert problem == "verify_cards names no card of this host"
    assert choose((), "all") == ((), [], "")


def test_verify_cards_is_checked() -> None:
    assert check({"verify_cards": [UUID]}).verify_cards == [UUID]
    with pytest.raises(SettingsError, match="verify_cards"):
        check({"verify_cards": "second"})


def test_both_probes_take_the_same_sizes_and_routes() -> None:
    driver, nvcc = Program("driver"), Program("nvcc")
    assert driver.command(SIZES, "pool").endswith("--route pool --chunk-mib 256 --cap-mib 8704")
    assert nvcc.command(SIZES, "pool").endswith(" 256 8704 0 route=pool")
    assert driver.command(SIZES, hold=True).endswith("--hold 120 --until-stdin-closes")
    assert nvcc.command(SIZES, hold=True).endswith(" 256 8704 120 route=sync until-stdin-closes")


def test_the_probe_chooses_the_image() -> None:
    small, large = Settings(), Settings(verify_probe="nvcc")
    assert of(small) == (Program("driver"), small.verify_image)
    assert of(large) == (Program("nvcc"), large.verify_nvcc_image)
