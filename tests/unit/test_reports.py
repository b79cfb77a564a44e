"""The table and the JSON: complete, readable, whole or not at all, and safe to print."""

import json
import os
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_k3s import reports
from hami_k3s.isolation.claims import CLAIMS, judge
from hami_k3s.isolation.evidence import Event, Evidence, Webhook
from hami_k3s.isolation.verdict import Status, Verdict
from hami_k3s.reports.json_report import file_name
from hami_k3s.reports.plain import plain
from tests.recorded.lab import NODE, OVERASK, PROBE, evidence

STARTED = datetime(2026, 7, 7, 12, 25, 15, tzinfo=timezone(timedelta(hours=2)))
FINISHED = STARTED + timedelta(seconds=42)
assert PROBE.result is not None
NOT_ENFORCED = evidence(probe=replace(PROBE, result=replace(PROBE.result, refused=False, allocated_mib=8704)))


def write(directory: Path, found: Evidence, host: str = "rtx-1") -> tuple[Path, dict[str, object]]:
    path = reports.write(
        directory,
        host,
        judge(found),
        found,
        started=STARTED,
        finished=FINISHED,
        versions={"k3s": "v1.36.2+k3s1"},
    )
    return path, json.loads(path.read_text())


def test_the_table_shows_every_claim_with_what_was_expected_and_observed() -> None:
    text = reports.render("rtx-1", judge(evidence()))
    lines = text.splitlines()
    assert lines[0] == "rtx-1"
    assert lines[1].split() == ["claim", "verdict", "expected", "observed"]
    assert all(f"\n{claim.id} " in text for claim in CLAIMS)
    assert "refused after 7424 MiB" in " ".join(text.split())
    assert lines[-1] == "rtx-1: pass (12 pass)"


@pytest.mark.parametrize("width", [20, 72, 100, 110, 120])
def test_the_table_is_wrapped_and_nothing_is_cut(width: int) -> None:
    verdict = Verdict(
        "refused", Status.FAIL, "expected " * 40, "observed " * 40, "why " * 60, "fix --it " * 40
    )
    text = reports.render("rtx-1", [verdict], width)
    assert max(len(line) for line in text.splitlines()) <= max(width, 72)
    for word, count in (("expected", 41), ("observed", 41), ("why", 60), ("--it", 40)):
        assert text.split().count(word) == count


def test_a_failure_says_why_and_how_to_fix_it() -> None:
    text = reports.render("rtx-1", judge(NOT_ENFORCED))
    assert "rtx-1: fail (11 pass, 1 fail; refused)" in text.splitlines()
    assert "  refused (fail): the limit is not enforced: a pod can take its neighbour's memory" in text
    assert "    to fix: if the claim mechanism fails too, fix that first" in text


def test_skips_and_errors_are_explained_too() -> None:
    text = reports.render(
        "rtx-1", judge(evidence(webhook=Webhook((), None), cards=None, errors={"cards": "no ssh"}))
    )
    assert "not tried: needs webhook, which does not hold (fail)" in " ".join(text.split())
    assert "co-resident (skip)" not in text  # once is enough
    assert "driver (error): cards could not be measured: no ssh" in text
    assert text.count("error") >= 3
    assert ": fail (" in text


def test_no_verdict_is_not_a_pass() -> None:
    assert reports.summary("rtx-1", []) == "rtx-1: error (no claim was decided)"


def test_the_json_has_verdicts_measurements_and_the_labs_evidence(tmp_path: Path) -> None:
    path, document = write(tmp_path, evidence(host_smi_text="host table"))
    assert path == tmp_path / "rtx-1.json"
    assert document["schema_version"] == reports.SCHEMA_VERSION
    assert (document["host"], document["node"], document["outcome"]) == ("rtx-1", NODE, "pass")
    assert (document["started"], document["finished"]) == ("2026-07-07T10:25:15Z", "2026-07-07T10:25:57Z")
    assert document["versions"] == {"k3s": "v1.36.2+k3s1"}
    assert document["card"]["memory_mib"] == 97887
    assert document["plan"]["overask_mib"] == 90000
    assert [one["claim"] for one in document["verdicts"]] == [claim.id for claim in CLAIMS]
    refused = next(one for one in document["verdicts"] if one["claim"] == "refused")
    assert (refused["status"], refused["lab_step"]) == ("pass", "6")
    assert refused["statement"].startswith("An allocation past the slice")
    lab = document["lab"]
    assert lab["nvidia_smi_host"] == "host table"
    assert "8000MiB" in lab["nvidia_smi_pod"]
    assert lab["hami_core_line"].endswith("Device 0 OOM 8629780480 / 8388608000")
    assert lab["events"]["hami-oversubscribe"][1]["message"] == f"1 nodes CardInsufficientMemory({NODE})"
    assert lab["events"]["hami-oversubscribe"][1]["meaning"].startswith(
        "the card's memory is granted already"
    )


def test_the_json_holds_the_whole_evidence(tmp_path: Path) -> None:
    _, document = write(tmp_path, evidence())
    assert document["evidence"] == json.loads(json.dumps(asdict(evidence())))


def test_the_json_is_complete_for_a_host_that_was_not_reached(tmp_path: Path) -> None:
    _, document = write(tmp_path, Evidence("rtx-1", errors={"cards": "ssh: no route to host"}))
    assert document["outcome"] == "error"
    assert len(document["verdicts"]) == len(CLAIMS)
    assert document["card"] is document["plan"] is document["lab"]["hami_core_line"] is None
    assert {one["status"] for one in document["verdicts"]} == {"error", "skip"}


def test_a_report_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = write(tmp_path, evidence())

    def full_disk(_: int) -> None:
        raise OSError("no space left on device")

    before = path.read_text()
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path, NOT_ENFORCED)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_directory_is_named_by_utc_time() -> None:
    assert reports.report_directory("reports", STARTED) == Path("reports/2026-07-07T10-25-15Z")
    assert (
        reports.report_directory("r", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)).name
        == "2026-01-02T03-04-05Z"
    )


def test_hosts_with_strange_names_are_files_of_their_own() -> None:
    assert file_name("ubuntu@203.0.113.7") == "ubuntu@203.0.113.7"
    names = {file_name(host) for host in ("a/b", "a_b", "a:b", "../../etc/passwd", "", ".hidden", "\udcff")}
    assert len(names) == 7
    assert all("/" not in name and not name.startswith(".") for name in names)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_file_name_stays_in_the_directory(host: str) -> None:
    assert (Path("reports") / f"{file_name(host)}.json").parent == Path("reports")


HOSTILE = "\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m\r\nnew\x08line\u202egnp\x9b1m"


def test_text_from_hosts_cannot_move_the_cursor(tmp_path: Path) -> None:
    assert plain(HOSTILE) == "red new?line?gnp?1m"
    found = evidence(overask_pod=replace(OVERASK, events=(Event("Failed", HOSTILE, HOSTILE, "Warning"),)))
    text = reports.render(HOSTILE, judge(found))
    assert all(char.isprintable() or char == "\n" for char in text)
    path, document = write(tmp_path, found, host=HOSTILE)
    assert document["host"] == HOSTILE
    assert all(32 <= byte < 127 or byte == 10 for byte in path.read_bytes())


@settings(deadline=None)
@given(st.text())
def test_plain_is_one_printable_line(text: str) -> None:
    assert plain(text).isprintable()
