"""What our own probes printed on a real H200, read by the parsers and judged as verify judges it."""

from pathlib import Path

import pytest

from hami_k3s.isolation.parse import find_out_of_memory, parse_probe

PROBES = Path(__file__).parent.parent / "recorded" / "h200" / "probes"
ENFORCED = {
    "sync": True,
    "pitch": True,
    "async": True,
    "vmm": True,
    "managed": True,
    "pool": False,
    "array": False,
}
MIB = 1024 * 1024


@pytest.mark.parametrize("route", ENFORCED)
def test_without_hami_core_no_route_is_refused(route: str) -> None:
    result = parse_probe((PROBES / f"driver-probe-{route}-no-hami.txt").read_text())
    assert result.measured
    assert not result.refused
    assert result.route == route


@pytest.mark.parametrize(("route", "enforced"), ENFORCED.items())
def test_routes_under_hami_core(route: str, enforced: bool) -> None:
    text = (PROBES / f"driver-probe-{route}-limited.txt").read_text()
    result, line = parse_probe(text), find_out_of_memory(text)
    assert result.refused is enforced
    assert (line is not None) is enforced
    if line is not None:
        assert line.limit == 8000 * MIB
        assert 8000 - 1024 <= result.allocated_mib < 8000
