"""A real card under the real HAMi-core: the claims' own verdicts, from what the tools really print, with both probes."""

import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.evidence import Card, Evidence, PodView, ProbeRun
from hami_k3s.isolation.parse import QUERY, find_out_of_memory, parse_cards, parse_probe
from hami_k3s.isolation.plan import SlicePlan
from hami_k3s.isolation.verdict import Status, Verdict
from tests.gpu.running import Record, card_now, ended, finished, held, holding

# HAMi-core at HAMi 2.9.0's commit refuses these; pool and array it does not count.
ENFORCED = ("pitch", "async", "vmm", "managed")
OTHERS = ("pool", "array")
Probe = Callable[..., list[str]]


def decide(claim: str, evidence: Evidence) -> Verdict:
    return next(one for one in CLAIMS if one.id == claim).decide(evidence)


@pytest.fixture
def measured(card: Card, sizes: SlicePlan) -> Evidence:
    return Evidence("here", card_uuid=card.uuid, plan=sizes, cards=(card,))


def test_refused_at_the_slice(
    measured: Evidence, card: Card, sizes: SlicePlan, probe: Probe, limited: dict[str, str], record: Record
) -> None:
    run, meanwhile = held(probe(hold=True), limited, card.uuid)
    record(f"{probe.kind}-probe-held.txt", f"{run.stderr}{run.stdout}{meanwhile}\n")  # type: ignore[attr-defined]
    verdict = decide("refused", replace(measured, probe=run))
    assert verdict.status is Status.PASS, verdict
    assert run.result is not None
    assert meanwhile.used_mib is not None
    assert meanwhile.used_mib >= run.result.allocated_mib  # it held that memory on this very card
    assert run.result.total_mib == sizes.slice_mib


def test_refused_fails_for_the_same_probe_without_the_limit(
    measured: Evidence, card: Card, probe: Probe, unlimited: dict[str, str]
) -> None:
    run, _ = held(probe(hold=True), unlimited, card.uuid)
    verdict = decide("refused", replace(measured, probe=run))
    assert verdict.status is Status.FAIL
    assert "not enforced" in verdict.why


def test_filling_one_slice_takes_nothing_from_the_other(
    measured: Evidence,
    card: Card,
    probe: Probe,
    limited_pod: Callable[[str], dict[str, str]],
    record: Record,
) -> None:
    with holding(probe(hold=True), limited_pod("a")) as (first, first_lines):
        alone = card_now(card.uuid)
        with holding(probe(hold=True), limited_pod("b")) as (second, second_lines):
            both = card_now(card.uuid)
            neighbour = ended("b", second, second_lines, both)
        run = ended("a", first, first_lines, alone)
    text = f"{run.stderr}{run.stdout}{alone}\n{neighbour.stderr}{neighbour.stdout}{both}\n"
    record(f"{probe.kind}-probe-two-holders.txt", text)  # type: ignore[attr-defined]
    found = replace(measured, probe=run, neighbour=neighbour)
    assert decide("refused", found).status is Status.PASS
    verdict = decide("neighbour", found)
    assert verdict.status is Status.PASS, verdict


def test_the_neighbour_is_harmed_when_both_share_one_usage_file(
    measured: Evidence, card: Card, probe: Probe, limited: dict[str, str]
) -> None:
    """What the claim is there for: HAMi-core counts the first one's memory against the second."""
    with holding(probe(hold=True), limited) as (first, first_lines):
        alone = card_now(card.uuid)
        with holding(probe(hold=True), limited) as (second, second_lines):
            neighbour = ended("b", second, second_lines, card_now(card.uuid))
        run = ended("a", first, first_lines, alone)
    verdict = decide("neighbour", replace(measured, probe=run, neighbour=neighbour))
    assert verdict.status in (Status.FAIL, Status.ERROR), verdict


def test_nvidia_smi_shows_the_slice(
    measured: Evidence, card: Card, limited: dict[str, str], record: Record
) -> None:
    done = subprocess.run(QUERY.split(" "), env=limited, capture_output=True, text=True, check=True)
    record("nvidia-smi-query-limited.csv", done.stdout)
    seen = next(one for one in parse_cards(done.stdout) if one.uuid == card.uuid)
    whole = PodView("here", card.uuid, card.memory_mib)
    limited_view = PodView("here", seen.uuid, seen.memory_mib, seen.used_mib)
    assert decide("slice-visible", replace(measured, view=limited_view)).status is Status.PASS
    assert decide("slice-visible", replace(measured, view=whole)).status is Status.FAIL


def test_routes_under_the_limit(
    measured: Evidence, sizes: SlicePlan, probe: Probe, limited: dict[str, str], record: Record
) -> None:
    runs = []
    for route in (*ENFORCED, *OTHERS):
        done = finished(probe(route), limited)
        record(f"{probe.kind}-probe-{route}-limited.txt", done.stderr + done.stdout)  # type: ignore[attr-defined]
        result = parse_probe(done.stdout)
        assert result.measured, result.error
        # A refusal is HAMi-core's own, or there is none.
        assert result.refused is (find_out_of_memory(done.stderr) is not None), route
        if route in ENFORCED:
            assert result.refused, route
            assert result.allocated_mib < sizes.slice_mib
        runs.append(ProbeRun("here", done.returncode, result, done.stderr, done.stdout, route=route))
    verdict = decide("routes", replace(measured, routes=tuple(runs)))
    assert verdict.status.holds, verdict
    gaps = [run.route for run in runs if run.result and not run.result.refused]
    assert verdict.status is (Status.WARN if gaps else Status.PASS)
    assert all(gap in verdict.observed for gap in gaps)


def test_the_control_fails_under_the_limit(
    measured: Evidence, card: Card, probe: Probe, limited: dict[str, str]
) -> None:
    run, _ = held(probe(hold=True), limited, card.uuid)
    verdict = decide("control", replace(measured, control=run))
    assert verdict.status is Status.FAIL
    assert "opted out" in verdict.why


def test_a_process_without_the_limits_variable_escapes(
    probe: Probe, limited: dict[str, str], record: Record
) -> None:
    """Software isolation, not a boundary: the report says so, and this is how we know."""
    escaped = {name: value for name, value in limited.items() if name != "CUDA_DEVICE_MEMORY_LIMIT_0"}
    done = finished(probe(), escaped)
    record("limit-env-removed.txt", done.stderr + done.stdout)
    result = parse_probe(done.stdout)
    assert (result.measured, result.refused) == (True, False)
