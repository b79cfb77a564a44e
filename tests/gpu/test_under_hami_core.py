"""A real card under the real HAMi-core: the claims' own verdicts, from what the tools really print."""

import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.evidence import Card, Evidence, PodView
from hami_k3s.isolation.parse import QUERY, find_out_of_memory, parse_cards, parse_probe
from hami_k3s.isolation.plan import SlicePlan
from hami_k3s.isolation.verdict import Status, Verdict
from tests.gpu.running import Record, finished, held

# HAMi-core at HAMi 2.9.0's commit refuses these; pool and array it does not count.
ENFORCED = ("sync", "pitch", "async", "vmm", "managed")


def decide(claim: str, evidence: Evidence) -> Verdict:
    return next(one for one in CLAIMS if one.id == claim).decide(evidence)


@pytest.fixture
def measured(card: Card, sizes: SlicePlan) -> Evidence:
    return Evidence("here", card_uuid=card.uuid, plan=sizes, cards=(card,))


def test_the_driver_probe_is_refused_at_the_slice(
    measured: Evidence,
    card: Card,
    sizes: SlicePlan,
    driver_probe: Callable[..., list[str]],
    limited: dict[str, str],
    record: Record,
) -> None:
    arguments = ("--chunk-mib", str(sizes.chunk_mib), "--cap-mib", str(sizes.cap_mib))
    run, meanwhile = held(
        driver_probe(*arguments, "--hold", "60", "--until-stdin-closes"), limited, card.uuid
    )
    record("driver-probe-held.txt", f"{run.stderr}{run.stdout}{meanwhile}\n")
    verdict = decide("refused", replace(measured, probe=run))
    assert verdict.status is Status.PASS, verdict
    assert run.result is not None
    assert meanwhile.used_mib is not None
    assert meanwhile.used_mib >= run.result.allocated_mib  # it held that memory on this very card
    assert run.result.total_mib == sizes.slice_mib


def test_the_labs_probe_is_refused_at_the_slice(
    measured: Evidence, card: Card, sizes: SlicePlan, nvcc_probe: str, limited: dict[str, str], record: Record
) -> None:
    command = [nvcc_probe, str(sizes.chunk_mib), str(sizes.cap_mib), "60", "until-stdin-closes"]
    run, meanwhile = held(command, limited, card.uuid)
    record("nvcc-probe-held.txt", f"{run.stderr}{run.stdout}{meanwhile}\n")
    verdict = decide("refused", replace(measured, probe=run))
    assert verdict.status is Status.PASS, verdict


def test_the_claim_fails_for_the_same_probe_without_the_limit(
    measured: Evidence,
    card: Card,
    sizes: SlicePlan,
    driver_probe: Callable[..., list[str]],
    unlimited: dict[str, str],
) -> None:
    arguments = ("--chunk-mib", str(sizes.chunk_mib), "--cap-mib", str(sizes.cap_mib))
    run, _ = held(driver_probe(*arguments, "--hold", "60", "--until-stdin-closes"), unlimited, card.uuid)
    verdict = decide("refused", replace(measured, probe=run))
    assert verdict.status is Status.FAIL
    assert "not enforced" in verdict.why


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


@pytest.mark.parametrize("route", ["sync", "pitch", "async", "pool", "vmm", "array", "managed"])
def test_routes_under_the_limit(
    route: str,
    sizes: SlicePlan,
    driver_probe: Callable[..., list[str]],
    limited: dict[str, str],
    record: Record,
) -> None:
    command = driver_probe(
        "--route", route, "--chunk-mib", str(sizes.chunk_mib), "--cap-mib", str(sizes.cap_mib)
    )
    done = finished(command, limited)
    record(f"driver-probe-{route}-limited.txt", done.stderr + done.stdout)
    result = parse_probe(done.stdout)
    assert result.measured, result.error
    # A refusal is HAMi-core's own, or there is none.
    assert result.refused is (find_out_of_memory(done.stderr) is not None)
    if route in ENFORCED:
        assert result.refused
        assert result.allocated_mib < sizes.slice_mib


def test_a_process_without_the_limits_variable_escapes(
    sizes: SlicePlan, driver_probe: Callable[..., list[str]], limited: dict[str, str], record: Record
) -> None:
    """Software isolation, not a boundary: the report says so, and this is how we know."""
    escaped = {name: value for name, value in limited.items() if name != "CUDA_DEVICE_MEMORY_LIMIT_0"}
    command = driver_probe("--chunk-mib", str(sizes.chunk_mib), "--cap-mib", str(sizes.cap_mib))
    done = finished(command, escaped)
    record("limit-env-removed.txt", done.stderr + done.stdout)
    result = parse_probe(done.stdout)
    assert (result.measured, result.refused) == (True, False)
