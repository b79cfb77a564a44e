"""What our own probes printed on a real H200, read by the parsers and judged as verify judges it."""

import re
from pathlib import Path

import pytest

from hami_k3s.isolation.claims import routes as routes_claim
from hami_k3s.isolation.evidence import ProbeRun
from hami_k3s.isolation.parse import find_out_of_memory, parse_probe
from hami_k3s.isolation.verdict import Status
from tests.recorded.lab import evidence

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
NAME = re.compile(r"(?P<kind>driver|nvcc)-probe-(?P<route>[a-z]+)-(?P<how>limited|no-hami)\.txt")
# Of both kinds of probe, whatever was recorded.
RECORDED = {path.name: match for path in sorted(PROBES.iterdir()) if (match := NAME.fullmatch(path.name))}


def test_every_route_is_recorded() -> None:
    for how in ("limited", "no-hami"):
        assert {m["route"] for m in RECORDED.values() if (m["kind"], m["how"]) == ("driver", how)} == set(
            ENFORCED
        )


@pytest.mark.parametrize("name", [name for name, match in RECORDED.items() if match["how"] == "no-hami"])
def test_without_hami_core_no_route_is_refused(name: str) -> None:
    result = parse_probe((PROBES / name).read_text())
    assert result.measured
    assert not result.refused
    assert result.route == RECORDED[name]["route"]


@pytest.mark.parametrize("name", [name for name, match in RECORDED.items() if match["how"] == "limited"])
def test_routes_under_hami_core(name: str) -> None:
    enforced = ENFORCED[RECORDED[name]["route"]]
    text = (PROBES / name).read_text()
    result, line = parse_probe(text), find_out_of_memory(text)
    assert result.refused is enforced
    assert (line is not None) is enforced
    if line is not None:
        assert line.limit == 8000 * MIB
        assert 8000 - 1024 <= result.allocated_mib < 8000


def test_the_claim_warns_of_the_two_known_gaps() -> None:
    runs = []
    for route in ENFORCED:
        if route != "sync":
            text = (PROBES / f"driver-probe-{route}-limited.txt").read_text()
            runs.append(ProbeRun("pod", 0, parse_probe(text), text, text, route=route))
    verdict = routes_claim.decide(evidence(routes=tuple(runs)))
    assert verdict.status is Status.WARN
    assert verdict.observed == "enforced: pitch, async, vmm, managed; NOT enforced: pool, array"
