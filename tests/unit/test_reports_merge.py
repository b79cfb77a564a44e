"""Reports of several runs as one: the newest reading of a host counts, and files that are no reports are named."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_k3s.isolation.outcome import HostOutcome, unreached
from hami_k3s.reports import schema
from hami_k3s.reports.__main__ import main
from hami_k3s.reports.run import Run
from tests.recorded.lab import evidence
from tests.recorded.outcomes import FINISHED, NOT_ENFORCED, SCHEMA, STARTED, outcome

HOUR = timedelta(hours=1)


def run(
    folder: Path, *outcomes: HostOutcome, unfinished: tuple[str, ...] = (), later: timedelta = timedelta(0)
) -> Path:
    """A run's folder; what `later` moves is the run and all its hosts."""
    one = Run(folder, STARTED + later)
    for name in (*(host.host for host in outcomes), *unfinished):
        one.expect(name)
    for host in outcomes:
        one.add(replace(host, started=STARTED + later, finished=FINISHED + later) if host.cards else host)
    one.close({})
    return folder


def merged(tmp_path: Path, *words: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit status and the document, which is a report again."""
    out = tmp_path / "merged"
    status = main(["merge", *map(str, words), "-o", str(out)])
    document = json.loads((out / "report.json").read_text())
    jsonschema.validate(document, SCHEMA)
    return status, document


def test_two_sites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = run(tmp_path / "a", outcome(host="a-1")), run(tmp_path / "b", outcome(host="b-1"), later=HOUR)
    status, document = merged(tmp_path, one, two / "report.json")
    assert status == 0
    assert [host["host"] for host in document["hosts"]] == ["a-1", "b-1"]
    assert (document["outcome"], document["complete"], document["rerun"]) == ("pass", True, None)
    assert (document["started"], document["finished"]) == ("2026-07-07T10:25:15Z", "2026-07-07T11:25:57Z")
    assert document["counts"]["pass"] == 36
    assert capsys.readouterr().out.splitlines() == [
        "2 reports, 2 hosts: pass (2 pass)",
        f"report: {tmp_path / 'merged' / 'report.html'}",
    ]
    for name in ("report.md", "report.html", "junit.xml"):
        text = (tmp_path / "merged" / name).read_text()
        assert "a-1" in text
        assert "b-1" in text


@pytest.mark.parametrize("turned", [False, True])
def test_the_newest_reading_of_a_host_counts_whatever_it_says(tmp_path: Path, turned: bool) -> None:
    failed = outcome(NOT_ENFORCED, "rtx-1")
    old = run(tmp_path / "old", failed, outcome(host="rtx-2"), outcome(host="rtx-3"))
    new = run(tmp_path / "new", outcome(host="rtx-1"), unreached("rtx-2", "no route to host"), later=HOUR)
    status, document = merged(tmp_path, *([new, old] if turned else [old, new]))
    assert {host["host"]: host["outcome"] for host in document["hosts"]} == {
        "rtx-1": "pass",
        "rtx-2": "error",
        "rtx-3": "pass",
    }
    assert (status, document["outcome"]) == (1, "error")


def test_a_later_run_completes_an_interrupted_one(tmp_path: Path) -> None:
    cut = run(tmp_path / "cut", outcome(host="rtx-1"), unfinished=("rtx-2",))
    _, document = merged(tmp_path, cut)
    assert (document["complete"], document["trouble"], document["finished"]) == (False, "interrupted", None)
    status, document = merged(tmp_path, cut, run(tmp_path / "rest", outcome(host="rtx-2"), later=HOUR))
    assert (status, document["complete"], document["trouble"]) == (0, True, "")


def test_each_fleets_own_command_for_what_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["pyinfra", "inventory.py", "deploys/verify.py"])
    folders = []
    for site, later in (("one", timedelta(0)), ("its two", HOUR)):
        monkeypatch.setenv("GPU_FLEET", f"{site}.yaml")
        bad = [outcome(NOT_ENFORCED, f"{site}-{number}") for number in (1, 2)]
        folders.append(run(tmp_path / site, *bad, later=later))
    good = run(tmp_path / "later", outcome(host="its two-1"), later=2 * HOUR)
    status, document = merged(tmp_path, *folders, good)
    assert status == 1
    assert document["rerun"] == (
        "GPU_FLEET=one.yaml pyinfra inventory.py deploys/verify.py --limit one-1 --limit one-2; "
        "GPU_FLEET='its two.yaml' pyinfra inventory.py deploys/verify.py --limit 'its two-2'"
    )
    assert f"look again: {document['rerun']}" in capsys.readouterr().out


def test_one_name_on_two_machines_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = outcome(evidence(card_uuid="GPU-other"), "rtx-1")
    merged(tmp_path, run(tmp_path / "a", outcome()), run(tmp_path / "b", other, later=HOUR))
    assert "note: rtx-1 has other cards in" in capsys.readouterr().err
    merged(tmp_path, run(tmp_path / "a", outcome()), run(tmp_path / "c", outcome(), later=HOUR))
    assert capsys.readouterr().err == ""


def test_what_is_no_report_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = run(tmp_path / "good", outcome())
    document = json.loads((good / "report.json").read_text())
    broken, old, text = tmp_path / "broken.json", tmp_path / "old.json", tmp_path / "text.json"
    broken.write_text(json.dumps({**document, "outcome": "green", "hosts": [{"host": 3}]}))
    old.write_text(json.dumps({**document, "schema_version": 1}))
    text.write_text("<html>")
    words = [str(path) for path in (good, broken, old, text, tmp_path / "gone")]
    assert main(["merge", *words, "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f'Error: {broken}: outcome is "green", not one of pass, fail, warn, skip, error' in said
    assert f"Error: {broken}: hosts[0] has no schema_version" in said
    assert re.search(rf"Error: {broken}: and \d+ more", said)
    assert f"Error: {old}: schema_version 1, this release reads 2" in said
    assert f"Error: {text}: not JSON" in said
    assert f"Error: {tmp_path / 'gone'}: No such file or directory" in said
    assert not (tmp_path / "out").exists()


def test_a_run_is_not_overwritten_by_what_it_is_merged_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path / "a", outcome())
    before = (folder / "report.json").read_text()
    assert main(["merge", str(folder), "-o", str(folder)]) == 2
    assert "name another one with -o" in capsys.readouterr().err
    assert (folder / "report.json").read_text() == before


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = run(tmp_path_factory.mktemp("run"), outcome(), unreached("rtx-2", "no route"))
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    pairs = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    return [(value, key) for key, _ in pairs] + [place for _, one in pairs for place in places(one)]


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_the_check_says_what_a_json_schema_library_says(
    document: dict[str, Any], data: st.DataObject
) -> None:
    copy = json.loads(json.dumps(document))
    assert list(schema.problems(copy)) == []
    container, key = data.draw(st.sampled_from(places(copy)))
    change = data.draw(
        st.sampled_from(["delete", "add", None, True, -1, 3, 2.5, "", "pass", "2026", [], {}, [3], {"a": 1}])
    )
    if change == "add" and isinstance(container, dict):
        container["unheard of"] = 1
    elif change == "delete" and isinstance(container, dict):
        del container[key]
    else:
        container[key] = change
    theirs = [*jsonschema.Draft202012Validator(SCHEMA).iter_errors(copy)]
    assert bool(list(schema.problems(copy))) == bool(theirs)
