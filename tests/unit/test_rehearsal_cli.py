"""The rehearsal's own logic: faults by name, cards by profile, and what counts as a change in pyinfra's output."""

from __future__ import annotations

import pytest

from rehearsal import faults
from rehearsal.cli import main
from rehearsal.errors import RehearsalError
from rehearsal.profiles import PROFILES, cards
from rehearsal.rehearse import changes
from rehearsal.state import State

TABLE = """--> Results:
    Operation     Hosts   Success   Error   No Change   
    one           1       {one}         -       -           
    Grand total   3       {one}         {error}       {same}           
"""  # noqa: W291 (as pyinfra prints it)


@pytest.mark.parametrize(
    ("one", "error", "same", "expected"),
    [("-", "-", "3", (3, 0)), ("1", "-", "2", (3, 1)), ("1", "1", "1", (3, 2))],
)
def test_changes_are_read_from_the_grand_total(
    one: str, error: str, same: str, expected: tuple[int, int]
) -> None:
    assert changes(TABLE.format(one=one, error=error, same=same)) == expected


def test_no_table_is_an_error_not_zero_changes() -> None:
    with pytest.raises(RehearsalError, match="no result table"):
        changes("--> Connecting to hosts...\n")


def test_faults_are_added_replaced_and_cleared() -> None:
    assert faults.changed(["webhook-late=15"], ["webhook-late=30", "mig"], []) == ["webhook-late=30", "mig"]
    assert faults.changed(["webhook-late=15", "mig"], [], ["webhook-late"]) == ["mig"]
    assert faults.changed(["webhook-late=15", "mig"], [], ["all"]) == []
    for unknown in (["migg"], ["all"]):
        with pytest.raises(RehearsalError, match="unknown fault"):
            faults.changed([], unknown, [])


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_cards_are_the_same_each_time_and_differ_from_each_other(name: str) -> None:
    first, second = cards(name, 2, "n-1")
    assert cards(name, 2, "n-1") == [first, second]
    other = cards(name, 1, "n-2")[0]
    assert len({first["uuid"], second["uuid"], other["uuid"]}) == 3
    assert first["bus_id"] != second["bus_id"]


@pytest.mark.parametrize("name", ["", "UPPER", "a" * 21, "../x", "-x"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(RehearsalError, match="is no name"):
        State(name)


def test_without_root_the_message_says_sudo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["up"]) == 1
    assert "sudo" in capsys.readouterr().err


def test_missing_packages_are_named_all_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(
        "rehearsal.host.NEEDED", {"no-such-command": "package-one", "/no/such/file": "package-two"}
    )
    assert main(["list"]) == 1
    said = capsys.readouterr().err
    assert "package-one package-two" in said
    assert "--install-packages" in said
