"""The claims that make the others evidence: neighbour, controls, routes, no-request, durable. Each fails for its own reason."""

from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.isolation.evidence import Event, ProbeRun, Sight
from hami_k3s.isolation.verdict import Status
from tests.recorded.lab import (
    CONTROL,
    DURABLE,
    FITTED,
    MECHANISM,
    NEIGHBOUR,
    OVERASK,
    PROBE,
    ROUTES,
    VIEW,
    evidence,
    route,
    share_pod,
)
from tests.recorded.one_change import Case, check, parameters, verdicts

FAIL, WARN, ERROR = Status.FAIL, Status.WARN, Status.ERROR
IDS = {"neighbour", "control", "pending-control", "routes", "no-request", "durable"}
MIB = 1024 * 1024


def run(base: ProbeRun, **changes: Any) -> ProbeRun:
    assert base.result is not None
    outer = {
        name: changes.pop(name) for name in ("stderr", "host_free_mib", "host_used_mib") if name in changes
    }
    return replace(base, result=replace(base.result, **changes), **outer)


def oom(would_be: int, limit: int = 8000 * MIB) -> str:
    return f"[HAMI-core ERROR (pid:1 thread=2 allocator.c:99)]: Device 0 OOM {would_be} / {limit}\n"


def routes(*changed: ProbeRun) -> dict[str, Any]:
    others = {one.route: one for one in ROUTES} | {one.route: one for one in changed}
    return {"routes": tuple(others.values())}


def durable(**changes: Any) -> dict[str, Any]:
    return {"durable": replace(DURABLE, **changes)}


LEAKED = run(NEIGHBOUR, allocated_mib=256, stderr=oom(8256 * MIB))
CRASHED = replace(PROBE, result=None, stderr="Segmentation fault", exit_status=139)
UNFIT = Event("FilteringFailed", "hami-scheduler", "1 nodes CardInsufficientMemory(gpu-1)", "Warning")
assert DURABLE.survivor is not None
CASES: list[Case] = [
    ("taken", "neighbour", FAIL, {"neighbour": LEAKED}, "HAMi-core counted 8256 MiB against it"),
    (
        "card full",
        "neighbour",
        FAIL,
        {"neighbour": run(NEIGHBOUR, allocated_mib=256, stderr="")},
        "the card had no room",
    ),
    (
        "unlimited",
        "neighbour",
        FAIL,
        {"neighbour": run(NEIGHBOUR, refused=False, allocated_mib=8704, stderr="")},
        "got more than its slice",
    ),
    ("other limit", "neighbour", FAIL, {"neighbour": run(NEIGHBOUR, stderr=oom(9, 8))}, "its own limit"),
    ("not held", "neighbour", ERROR, {"neighbour": run(NEIGHBOUR, host_used_mib=8000)}, "had let go"),
    ("host not read", "neighbour", ERROR, {"neighbour": run(NEIGHBOUR, host_used_mib=None)}, "was not read"),
    ("crashed", "neighbour", ERROR, {"neighbour": CRASHED}, "Segmentation fault"),
    (
        "by the card",
        "control",
        FAIL,
        {"control": run(CONTROL, refused=True, allocated_mib=512, rc=2)},
        "the card or the driver refuses by itself",
    ),
    (
        "still HAMi-core",
        "control",
        FAIL,
        {"control": run(CONTROL, refused=True, allocated_mib=0, stderr=oom(9, 8))},
        "in a pod that opted out",
    ),
    (
        "ended early",
        "control",
        FAIL,
        {"control": run(CONTROL, allocated_mib=8000)},
        "before it was past the slice",
    ),
    ("crashed", "control", ERROR, {"control": CRASHED}, "Segmentation fault"),
    (
        "never scheduled",
        "pending-control",
        FAIL,
        {"pending_control": replace(OVERASK, events=(UNFIT,))},
        "restart deployment/hami-scheduler",
    ),
    (
        "by another scheduler",
        "pending-control",
        FAIL,
        {"pending_control": replace(FITTED, events=(Event("Scheduled", "default-scheduler", "x"),))},
        "stays Pending",
    ),
    ("another pod", "pending-control", ERROR, {"pending_control": replace(FITTED, uid="2")}, "another pod"),
    ("known gaps", "routes", WARN, routes(route("pool", False), route("array", False)), "known gap"),
    ("new gap", "routes", FAIL, routes(route("managed", False)), "a neighbour's memory can be taken"),
    ("crashed", "routes", ERROR, routes(replace(CRASHED, route="vmm")), "vmm: Segmentation fault"),
    ("by the card", "routes", ERROR, routes(route("vmm", stderr="", stdout="")), "vmm"),
    (
        "no such call",
        "routes",
        WARN,
        routes(
            replace(
                run(route("pool"), measured=False, refused=False, error="this driver has no pool"), stderr=""
            )
        ),
        "this driver has no pool",
    ),
    ("none", "routes", ERROR, {"routes": ()}, "nothing"),
    (
        "plain pod",
        "no-request",
        FAIL,
        {"no_request": (Sight("plain", ("/dev/nvidia0",)), Sight("asks-for-all"))},
        "/dev/nvidia0",
    ),
    (
        "image that asks",
        "no-request",
        WARN,
        {"no_request": (Sight("plain"), Sight("asks-for-all", (), ("GPU 0: H200",), "all"))},
        "overwriteEnv",
    ),
    ("half", "no-request", ERROR, {"no_request": (Sight("plain"),)}, "both containers"),
    ("node lost", "durable", FAIL, durable(lost=("registered: nothing",)), "did not come back"),
    (
        "restarted pod",
        "durable",
        FAIL,
        durable(survivor=replace(DURABLE.survivor, uid="2")),
        "leave running pods alone",
    ),
    ("pod gone", "durable", FAIL, durable(survivor=None), "hami-share-before is gone"),
    ("card lost", "durable", FAIL, durable(blind=("hami-share-before: no devices",)), "lost its card"),
    (
        "not looked at",
        "durable",
        ERROR,
        durable(survivor_view=None),
        "slice-visible: view could not be measured",
    ),
    (
        "no HAMi-core in new pods",
        "durable",
        FAIL,
        durable(newcomer_mechanism=replace(MECHANISM, preload=None)),
        "mechanism does not hold for hami-share-after",
    ),
    (
        "old limit lost",
        "durable",
        FAIL,
        durable(survivor_view=replace(VIEW, total_mib=97887)),
        "slice-visible does not hold for hami-share-before",
    ),
    (
        "not enforced any more",
        "durable",
        FAIL,
        durable(newcomer_probe=run(PROBE, refused=False, allocated_mib=8704)),
        "refused does not hold for hami-share-after",
    ),
]


@pytest.mark.parametrize(("claim", "status", "changes", "words"), parameters(CASES))
def test_a_claim_fails_for_its_own_reason(
    claim: str, status: Status, changes: dict[str, Any], words: str
) -> None:
    check(claim, status, changes, words)


def test_every_claim_has_a_case_that_fails_it() -> None:
    assert {case[1] for case in CASES if case[2] is FAIL} == IDS


def test_a_limit_that_is_not_enforced_is_one_failure_and_no_more() -> None:
    found = verdicts(evidence(probe=run(PROBE, refused=False, allocated_mib=8704)))
    assert [name for name, one in found.items() if one.status is FAIL] == ["refused"]
    assert [name for name, one in found.items() if one.status is Status.SKIP] == [
        "neighbour",
        "routes",
        "durable",
    ]


def test_the_pods_of_the_lab_are_different_pods() -> None:
    assert share_pod("before").name != share_pod("after").name
