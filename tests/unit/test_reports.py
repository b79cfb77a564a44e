"""The table and the files: complete, readable, whole or not at all, and safe to print."""

import json
import os
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import junitparser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.evidence import Webhook
from hami_k3s.isolation.outcome import HostOutcome, unreached
from hami_k3s.isolation.verdict import Status, Verdict
from hami_k3s.reports import document, terminal
from hami_k3s.reports.document import file_name
from hami_k3s.reports.folder import report_directory
from hami_k3s.reports.plain import plain, short
from hami_k3s.reports.run import Run
from tests.recorded.lab import NODE, OTHER_UUID, UUID, evidence
from tests.recorded.outcomes import FINISHED, NOT_ENFORCED, SCHEMA, STARTED, outcome, written


def test_the_table_shows_every_claim_with_what_was_expected_and_observed() -> None:
    text = terminal.render(outcome())
    lines = text.splitlines()
    assert lines[0] == "rtx-1"
    assert lines[1].split() == ["claim", "verdict", "expected", "observed"]
    assert all(f"\n{claim.id} " in text for claim in CLAIMS)
    assert "refused after 7424 MiB" in " ".join(text.split())
    assert "- durable: verify_durable is not set" in text
    assert lines[-1] == "rtx-1: pass (18 pass)"


def test_uuids_are_short_in_the_table_and_whole_in_the_json(tmp_path: Path) -> None:
    assert UUID not in terminal.render(outcome())
    assert "8000 MiB of GPU-3c4a3856…" in " ".join(terminal.render(outcome()).split())
    assert short("no GPU-0 here, GPU-3c4a3856-fbb4") == "no GPU-0 here, GPU-3c4a3856-fbb4"
    _, found = written(tmp_path, outcome())
    (co_resident,) = (one for one in found["hosts"][0]["verdicts"] if one["claim"] == "co-resident")
    assert UUID in co_resident["observed"]


@pytest.mark.parametrize("width", [20, 72, 100, 110, 120])
def test_the_table_is_wrapped_and_nothing_is_cut(width: int) -> None:
    verdict = Verdict(
        "driver", Status.FAIL, "expected " * 40, "observed " * 40, "why " * 60, "fix --it " * 40
    )
    text = terminal.render(HostOutcome("rtx-1", node_verdicts=(verdict,)), width)
    assert max(len(line) for line in text.splitlines()) <= max(width, 72)
    for word, count in (("expected", 41), ("observed", 41), ("why", 60), ("--it", 40)):
        assert text.split().count(word) == count


def test_a_failure_says_why_and_how_to_fix_it() -> None:
    text = terminal.render(outcome(NOT_ENFORCED))
    assert "rtx-1: fail (14 pass, 1 fail, 3 skip; refused)" in text.splitlines()
    assert "  refused (fail): the limit is not enforced: a pod can take its neighbour's memory" in text
    assert "    to fix: " in text


def test_several_cards_are_told_apart_and_explained_once() -> None:
    other = evidence(card_uuid=OTHER_UUID)
    text = terminal.render(outcome(NOT_ENFORCED, "rtx-1", replace(NOT_ENFORCED), other))
    assert text.count("card 0 (NVIDIA RTX PRO 6000 Blackwell Server Edition, GPU-3c4a3856…)") == 2
    assert text.count("the limit is not enforced: a pod can take") == 1
    assert "on 3 cards; refused[0], " in text.splitlines()[-1]


def test_skips_and_errors_are_explained_too() -> None:
    text = terminal.render(
        outcome(evidence(webhook=Webhook((), None), cards=None, errors={"cards": "no ssh"}))
    )
    assert "not tried: needs webhook, which does not hold (fail)" in " ".join(text.split())
    assert "co-resident (skip)" not in text  # once is enough
    assert "driver (error): cards could not be measured: no ssh" in text
    assert ": fail (" in text


def test_no_verdict_is_not_a_pass() -> None:
    assert terminal.summary(HostOutcome("rtx-1")) == "rtx-1: error (no claim was decided)"


def test_the_fleet_ends_with_one_line_a_host_and_one_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_FLEET", "my fleet.yaml")
    monkeypatch.setattr(sys, "argv", ["/bin/pyinfra", "inventory.py", "deploys/verify.py", "--limit", "rtx*"])
    run = Run(report_directory(tmp_path, STARTED), STARTED)
    for host in ("rtx-1", "rtx-2", "rtx 3"):
        run.expect(host)
    run.add(outcome())
    run.add(outcome(NOT_ENFORCED, "rtx-2"))
    lines = run.close({"rtx 3": "the host could not be reached"}).splitlines()
    assert lines[0] == "rtx-1: pass (18 pass)"
    assert lines[1].startswith("rtx-2: fail (")
    assert lines[2] == "rtx 3: error (the host could not be reached)"
    assert lines[3] == (
        "fleet: fail (3 hosts: 1 pass, 1 fail, 1 error; rtx-2: refused; rtx 3: the host could not be reached)"
    )
    assert lines[4] == (
        "look again: GPU_FLEET='my fleet.yaml' pyinfra inventory.py deploys/verify.py --limit rtx-2 --limit 'rtx 3'"
    )
    assert lines[5] == f"report: {run.directory / 'report.html'}"


def test_the_json_has_verdicts_measurements_and_the_labs_evidence(tmp_path: Path) -> None:
    run, whole = written(tmp_path, outcome(evidence(host_smi_text="host table")))
    found = json.loads((run.directory / "rtx-1.json").read_text())
    assert whole["hosts"] == [found]
    assert (whole["schema_version"], whole["complete"], whole["outcome"], whole["rerun"]) == (
        2,
        True,
        "pass",
        None,
    )
    assert (found["host"], found["node"], found["outcome"]) == ("rtx-1", NODE, "pass")
    assert (found["started"], found["finished"]) == ("2026-07-07T10:25:15Z", "2026-07-07T10:25:57Z")
    assert found["versions"] == {"k3s": "v1.36.2+k3s1", "helm": None}
    assert {one["claim"] for one in found["verdicts"]} == {claim.id for claim in CLAIMS}
    refused = next(one for one in found["verdicts"] if one["claim"] == "refused")
    assert (refused["status"], refused["lab_step"], refused["card"]) == ("pass", "6", UUID)
    (card,) = found["cards"]
    assert card["card"]["memory_mib"] == 97887
    assert card["plan"]["overask_mib"] == 90000
    lab = card["lab"]
    assert lab["nvidia_smi_host"] == "host table"
    assert "8000MiB" in lab["nvidia_smi_pod"]
    assert lab["hami_core_line"].endswith("Device 0 OOM 8629780480 / 8388608000")
    assert lab["events"]["hami-share-a"][1]["meaning"] == "HAMi found a card that fits"
    assert card["evidence"] == json.loads(json.dumps(asdict(evidence(host_smi_text="host table"))))


def test_the_picture_is_what_was_measured(tmp_path: Path) -> None:
    _, found = written(tmp_path, outcome())
    seen = found["hosts"][0]["cards"][0]["memory"]
    assert [(part["kind"], part["mib"]) for part in seen["parts"]] == [
        ("first", 7424),
        ("second", 7424),
        ("other", 15950 - 2 * 7424),
        ("free", 81200),
    ]
    assert sum(part["percent"] for part in seen["parts"]) <= 100
    assert [(pod["role"], pod["allocated_mib"], pod["refused"]) for pod in seen["pods"]] == [
        ("first", 7424, True),
        ("second", 7424, True),
        ("control", 8704, False),
    ]
    assert seen["overask"]["card_percent"] < 100  # what lies beyond does not fit


def test_tolerances_are_named_and_explained_and_the_limit_has_none(tmp_path: Path) -> None:
    _, found = written(tmp_path, outcome())
    bands = {one["name"]: one for one in found["tolerances"]}
    assert bands["limit"]["value"] == "0 bytes"
    assert "1024 MiB" in bands["context"]["value"]
    assert all(one["why"] for one in bands.values())


def test_a_host_that_was_not_reached_is_there_with_every_claim(tmp_path: Path) -> None:
    _, found = written(tmp_path, unreached("rtx-1", "ssh: no route to host"))
    (host,) = found["hosts"]
    assert host["outcome"] == found["outcome"] == "error"
    assert {one["claim"] for one in host["verdicts"]} == {claim.id for claim in CLAIMS} - {"durable"}
    assert {one["status"] for one in host["verdicts"]} == {"error"}
    assert all("no route" in one["why"] for one in host["verdicts"])


def test_an_interrupted_run_has_every_host(tmp_path: Path) -> None:
    run = Run(report_directory(tmp_path, STARTED), STARTED)
    for host in ("rtx-1", "rtx-2"):
        run.expect(host)
    run.add(outcome())
    half = json.loads((run.directory / "report.json").read_text())
    jsonschema.validate(half, SCHEMA)
    assert (half["complete"], half["finished"]) == (False, None)
    assert [(host["host"], host["outcome"]) for host in half["hosts"]] == [
        ("rtx-1", "pass"),
        ("rtx-2", "error"),
    ]
    run.close({})
    ended = json.loads((run.directory / "report.json").read_text())
    jsonschema.validate(ended, SCHEMA)
    assert (ended["complete"], ended["trouble"], ended["outcome"]) == (False, "interrupted", "error")
    assert "interrupted" in (run.directory / "report.html").read_text()
    assert (run.directory / "junit.xml").exists()


def test_junit_is_read_by_a_reader(tmp_path: Path) -> None:
    run, found = written(
        tmp_path, outcome(NOT_ENFORCED), outcome(host="rtx-2"), unreached("rtx-3", "ssh: no")
    )
    suites = {suite.name: suite for suite in junitparser.JUnitXml.fromfile(str(run.directory / "junit.xml"))}
    assert list(suites) == ["rtx-1", "rtx-2", "rtx-3"]
    first = suites["rtx-1"]
    assert (first.tests, first.failures, first.skipped, first.errors) == (18, 1, 3, 0)
    assert suites["rtx-3"].errors == suites["rtx-3"].tests == 17
    (bad,) = [case for case in first if any(isinstance(one, junitparser.Failure) for one in case.result)]
    assert (bad.name, bad.classname) == ("refused", f"rtx-1.{UUID}")
    assert "not enforced" in bad.result[0].message
    assert "observed: not refused" in bad.result[0].text
    assert sum(suite.tests for suite in suites.values()) == sum(
        sum(h["counts"].values()) for h in found["hosts"]
    )


def test_a_report_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = written(tmp_path, outcome())

    def full_disk(_: int) -> None:
        raise OSError("no space left on device")

    before = {path.name: path.read_text() for path in run.directory.iterdir()}
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        run.add(outcome(NOT_ENFORCED))
    assert {path.name: path.read_text() for path in run.directory.iterdir()} == before
    assert "could not be written: no space left on device; set report_folder" in run.close({})


def test_the_directory_is_named_by_utc_time() -> None:
    assert report_directory("reports", STARTED) == Path("reports/2026-07-07T10-25-15Z")
    assert report_directory("r", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)).name == "2026-01-02T03-04-05Z"


def test_hosts_with_strange_names_are_files_of_their_own() -> None:
    assert file_name("ubuntu@203.0.113.7") == "ubuntu@203.0.113.7"
    odd = ("a/b", "a_b", "a:b", "../../etc/passwd", "", ".hidden", "\udcff", "report", "Report")
    names = {file_name(host) for host in odd}
    assert len(names) == len(odd)
    assert all("/" not in name and not name.startswith(".") and name.lower() != "report" for name in names)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_file_name_stays_in_the_directory(host: str) -> None:
    assert (Path("reports") / f"{file_name(host)}.json").parent == Path("reports")


@settings(deadline=None)
@given(st.text())
def test_plain_is_one_printable_line(text: str) -> None:
    assert plain(text).isprintable()


def test_the_schema_refuses_what_is_not_a_report() -> None:
    good = document.fleet([outcome()], started=STARTED, finished=FINISHED, rerun=None)
    jsonschema.validate(good, SCHEMA)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for part, value in (("outcome", "green"), ("hosts", None), ("schema_version", 1), ("extra", 1)):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, part: value}, SCHEMA)
