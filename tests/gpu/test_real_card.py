"""A real card without HAMi-core: the tools are read, and nothing refuses the probes before their cap."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hami_k3s.isolation.claims import CLAIMS
from hami_k3s.isolation.evidence import Card, Evidence
from hami_k3s.isolation.parse import parse_cards, parse_kernel_module, parse_probe
from hami_k3s.isolation.plan import SlicePlan
from hami_k3s.isolation.verdict import Status
from tests.gpu.running import Record, finished, held, query

ROUTES = ["sync", "pitch", "async", "pool", "vmm", "array", "managed"]


def test_nvidia_smi_is_read(record: Record) -> None:
    text = query()
    record("nvidia-smi-query.csv", text)
    cards = parse_cards(text)
    assert cards
    for card in cards:
        assert card.uuid.startswith("GPU-")
        assert card.memory_mib > 1000
        assert card.free_mib is not None
        assert card.used_mib is not None
        assert card.free_mib + card.used_mib <= card.memory_mib
        assert card.driver
        assert card.mig in ("Enabled", "Disabled", "[N/A]")


def test_the_kernel_module_is_the_drivers(card: Card) -> None:
    file = Path("/proc/driver/nvidia/version")
    if not file.exists():
        pytest.skip(f"{file} is not visible here")
    assert parse_kernel_module(file.read_text()) == card.driver


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_is_refused_without_hami_core(
    route: str, sizes: SlicePlan, probe: Callable[..., list[str]], unlimited: dict[str, str], record: Record
) -> None:
    done = finished(probe(route), unlimited)
    record(f"{probe.kind}-probe-{route}-no-hami.txt", done.stderr + done.stdout)  # type: ignore[attr-defined]
    result = parse_probe(done.stdout)
    assert (done.returncode, result.measured, result.error) == (0, True, None)
    assert (result.route, result.refused, result.rc, result.allocated_mib) == (route, False, 0, sizes.cap_mib)


def test_the_control_holds_without_hami_core(
    card: Card, sizes: SlicePlan, probe: Callable[..., list[str]], unlimited: dict[str, str]
) -> None:
    run, meanwhile = held(probe(hold=True), unlimited, card.uuid)
    claim = next(one for one in CLAIMS if one.id == "control")
    verdict = claim.decide(Evidence("here", card_uuid=card.uuid, plan=sizes, cards=(card,), control=run))
    assert verdict.status is Status.PASS, verdict
    assert meanwhile.used_mib is not None
    assert meanwhile.used_mib >= sizes.cap_mib
