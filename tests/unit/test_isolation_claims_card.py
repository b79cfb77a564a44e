"""The claims about the card, measured in pods, each failed for its own reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.isolation.evidence import Allocation, Event
from hami_k3s.isolation.verdict import Status
from tests.recorded.lab import (
    CARD,
    MECHANISM,
    NODE,
    OTHER_UUID,
    OVERASK,
    PROBE,
    UUID,
    evidence,
    recorded,
    share_pod,
)
from tests.recorded.one_change import Case, check, parameters, verdicts

FAIL, WARN, ERROR = Status.FAIL, Status.WARN, Status.ERROR
IDS = {"co-resident", "slice-visible", "refused", "pending", "mechanism"}
MIB = 1024 * 1024
BROKEN_LOADER = recorded("h200/messages.txt")
lab = evidence()
assert lab.view is not None
assert PROBE.result is not None
a, b = share_pod("a"), share_pod("b")
by_default = tuple(replace(event, source="default-scheduler") for event in b.events)


def probe(**changes: Any) -> dict[str, Any]:
    own = {"stderr", "stdout", "host_free_mib", "exit_status"} & set(changes)
    outer = {name: changes.pop(name) for name in own}
    return {"probe": replace(PROBE, result=replace(PROBE.result, **changes), **outer)}


def oom(would_be: int, limit: int = 8000 * MIB) -> str:
    return f"[HAMI-core ERROR (pid:1 thread=2 allocator.c:99)]: Device 0 OOM {would_be} / {limit}\n"


def mechanism(environment: Mapping[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "mechanism": replace(
            MECHANISM, environment={**MECHANISM.environment, **(environment or {})}, **changes
        )
    }


def pending(*events: Event, **changes: Any) -> dict[str, Any]:
    return {"overask_pod": replace(OVERASK, events=events, **changes)}


CASES: list[Case] = [
    ("one pod", "co-resident", ERROR, {"share_pods": (a,)}, "two pods"),
    (
        "no room",
        "co-resident",
        FAIL,
        {"share_pods": (a, replace(OVERASK, name="hami-share-b"))},
        "hami-scheduler: the card's memory is granted already",
    ),
    ("no grant", "co-resident", FAIL, {"share_pods": (a, replace(b, allocated=()))}, "without a grant"),
    (
        "two cards",
        "co-resident",
        FAIL,
        {"share_pods": (a, replace(b, allocated=(Allocation(OTHER_UUID, 8000),)))},
        "nvidia.com/use-gpuuuid",
    ),
    ("not this card", "co-resident", FAIL, {"card_uuid": OTHER_UUID, "cards": (CARD,)}, "another card"),
    (
        "other size",
        "co-resident",
        FAIL,
        {"share_pods": (a, replace(b, allocated=(Allocation(UUID, 97887),)))},
        "another size",
    ),
    (
        "not by HAMi",
        "co-resident",
        FAIL,
        {"share_pods": (a, replace(b, events=by_default))},
        "default-scheduler",
    ),
    ("no events", "co-resident", ERROR, {"share_pods": (a, replace(b, events=()))}, "no scheduling event"),
    ("whole card", "slice-visible", FAIL, {"view": replace(lab.view, total_mib=97887)}, "claim mechanism"),
    (
        "half",
        "slice-visible",
        FAIL,
        {"view": replace(lab.view, total_mib=4000)},
        "neither its slice nor the card",
    ),
    (
        "other card",
        "slice-visible",
        FAIL,
        {"view": replace(lab.view, uuid=OTHER_UUID)},
        "NVIDIA_VISIBLE_DEVICES",
    ),
    ("not enforced", "refused", FAIL, probe(refused=False, allocated_mib=8704, rc=0), "not enforced"),
    ("by the card", "refused", FAIL, probe(stderr=""), "without HAMi-core's line"),
    ("other limit", "refused", FAIL, probe(stderr=oom(4097 * MIB, 4096 * MIB)), "another limit (4096 MiB)"),
    ("a byte off", "refused", FAIL, probe(stderr=oom(8000 * MIB + 9, 8000 * MIB + 1)), "another limit"),
    ("under limit", "refused", FAIL, probe(stderr=oom(8000 * MIB)), "up to one chunk"),
    ("far over", "refused", FAIL, probe(stderr=oom(8257 * MIB)), "other processes"),
    ("too much", "refused", FAIL, probe(allocated_mib=8192), "accounting is off"),
    ("host not read", "refused", ERROR, probe(host_free_mib=None), "was not read"),
    ("card full", "refused", ERROR, probe(host_free_mib=300), "may have refused itself"),
    ("early", "refused", WARN, probe(allocated_mib=6912), "1088 MiB before the limit"),
    ("at once", "refused", WARN, probe(allocated_mib=0), "8000 MiB before the limit"),
    (
        "no driver",
        "refused",
        ERROR,
        probe(measured=False, error="libcuda.so.1 cannot be loaded"),
        "libcuda.so.1",
    ),
    (
        "killed",
        "refused",
        ERROR,
        {"probe": replace(PROBE, result=None, stderr="Killed", exit_status=137)},
        "137",
    ),
    (
        "loader",
        "refused",
        ERROR,
        {"probe": replace(PROBE, result=None, stderr=BROKEN_LOADER)},
        "cannot be preloaded",
    ),
    ("scheduled", "pending", FAIL, pending(*a.events, phase="Running"), "only 81887 are left"),
    ("no event", "pending", ERROR, pending(), "nothing says why"),
    ("other reason", "pending", FAIL, pending(OVERASK.events[0]), "another reason than memory"),
    (
        "by default-scheduler",
        "pending",
        FAIL,
        pending(replace(OVERASK.events[1], source="default-scheduler")),
        "proves nothing about accounting",
    ),
    (
        "missed webhook",
        "pending",
        FAIL,
        pending(
            Event(
                "FailedScheduling", "default-scheduler", "0/1: 1 Insufficient nvidia.com/gpumem.", "Warning"
            )
        ),
        "the pod missed HAMi's webhook",
    ),
    (
        "other node",
        "pending",
        FAIL,
        pending(replace(OVERASK.events[1], message="1 nodes CardInsufficientMemory(node-2)")),
        f"other nodes than {NODE}",
    ),
    ("loader", "mechanism", FAIL, mechanism(stderr=BROKEN_LOADER), "cannot be preloaded"),
    ("no preload", "mechanism", FAIL, mechanism(preload=None), "not in /etc/ld.so.preload"),
    ("other library", "mechanism", FAIL, mechanism(preload="/opt/other.so\n"), "not preloaded"),
    ("opted out", "mechanism", FAIL, mechanism({"CUDA_DISABLE_CONTROL": "true"}, preload=None), "opts out"),
    ("no library", "mechanism", FAIL, mechanism(library=None), "is not in the pod"),
    ("other limit", "mechanism", FAIL, mechanism({"CUDA_DEVICE_MEMORY_LIMIT_0": "4000m"}), "4000m"),
]


@pytest.mark.parametrize(("claim", "status", "changes", "words"), parameters(CASES))
def test_a_claim_fails_for_its_own_reason(
    claim: str, status: Status, changes: dict[str, Any], words: str
) -> None:
    check(claim, status, changes, words)


def test_every_claim_has_a_case_that_fails_it() -> None:
    assert {case[1] for case in CASES if case[2] is FAIL} == IDS


def test_tolerances_are_bands() -> None:
    assert lab.view is not None
    close = {
        "view": replace(lab.view, total_mib=8001),
        **probe(allocated_mib=6976, stderr=oom(8256 * MIB)),
    }
    assert {verdict.status for verdict in verdicts(evidence(**close)).values()} == {Status.PASS}
