"""Each claim is seen to fail for its own reason, and only that claim: a fault for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from hami_k3s.isolation.claims import CLAIMS
from tests.recorded.one_change import depends_on
from tests.rehearsal.proof_runs import NODES, Case, Proof, booted

pytestmark = pytest.mark.rehearsal

ALWAYS = {"routes": "warn", "no-request": "warn"}  # known gaps of HAMi 2.9.0, and of CUDA images
CASES = [
    Case("mig", "driver", says="MIG is on for card 0"),
    Case("runc-default", "runtime", says="runc"),
    Case(
        "second-device-plugin=idle",
        "sole-provider",
        says="nvidia-device-plugin-daemonset",
        settled="k3s kubectl -n kube-system get ds nvidia-device-plugin-daemonset",
        after="k3s kubectl -n kube-system delete ds nvidia-device-plugin-daemonset",
    ),
    Case(
        "scheduler-image",
        "scheduler-version",
        says="kube-scheduler:v1.35",
        settled="k3s kubectl get pods -n kube-system -o json | grep -q kube-scheduler:v1.35",
    ),
    Case("webhook-passes", "webhook", says="default-scheduler"),
    Case(
        "unhealthy-card",
        "registered",
        says="not healthy",
        settled="! k3s kubectl get nodes -o json | grep -q 'health\\\\\":true'",
    ),
    Case(
        "registered-nothing",
        "allocatable",
        says="nvidia.com/gpu: 0",
        settled="k3s kubectl get nodes -o jsonpath='{.items[0].status.allocatable.nvidia\\.com/gpu}' | grep -qx 0",
    ),
    Case("grant-halved", "co-resident", says="another size than the pod asks for"),
    Case("preload-missing", "mechanism", says="not in /etc/ld.so.preload"),
    Case("preload-other", "mechanism", says="cannot be preloaded"),
    Case("slice-not-shown", "slice-visible", says="the pod sees the whole card"),
    Case("limit-not-enforced", "refused", says="the limit is not enforced"),
    Case("neighbour-harmed", "neighbour", says="what hami-share-a holds is missing in hami-share-b"),
    Case("control-refused", "control", says="in a pod that opted out"),
    Case("overask-scheduled", "pending", says="only 127771 are left beside the slices"),
    Case("slices-never-freed", "pending-control", says="stays Pending with both slices gone"),
    Case("managed-not-counted", "routes", says="managed: past the slice"),
    Case("no-request-sees-card", "no-request", says="a pod that asked for nothing was given the driver"),
    Case(
        "lost-after-restart",
        "durable",
        says="mechanism does not hold for hami-durable-after",
        settings={"verify_durable": True},
    ),
    # What says nothing about sharing is an error with its reason, never a pass and never a failure.
    Case(
        "evicts=1", "co-resident", "error", "Evicted: The node was low on resource", perhaps=("no-request",)
    ),
    Case(
        "node-not-ready",
        "co-resident",
        "error",
        "is not Ready",
        also=("no-request",),
        settled="k3s kubectl get nodes | grep -q NotReady",
    ),
    Case(
        "",
        "co-resident",
        "error",
        "nosuch/image:1: not found",
        also=("no-request",),
        settings={"verify_image": "docker.io/nosuch/image:1"},
    ),
    Case("", "", "pass", settings={"verify_durable": True}),
    Case("", "", "pass", settings={"hami_values": {}}),
]
GROUPS = [CASES[start : start + NODES] for start in range(0, len(CASES), NODES)]


@pytest.fixture(scope="module")
def proof(rehearsal: Any) -> Iterator[Proof]:
    with booted(rehearsal) as node:
        proof = Proof(node)
        done = proof.deploy("deploys/gpu_node.py", node.fleet)
        assert done.returncode == 0, done.stdout
        yield proof


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_faults(proof: Proof, case: Case) -> None:
    if case.name not in proof.results:
        proof.run(list(next(group for group in GROUPS if case in group)))
    result = proof.results[case.name]
    report, verdicts = result.report, result.report["verdicts"]
    seen = {one["claim"]: one["status"] for one in verdicts}
    expected = {claim.id: ALWAYS.get(claim.id, "pass") for claim in CLAIMS if claim.id in seen}
    if case.claim:
        expected |= {claim: "skip" for claim in seen if depends_on(claim, case.claim)}
        expected |= dict.fromkeys((case.claim, *case.also), case.status)
    for claim in case.perhaps:
        assert seen.pop(claim) in (expected.pop(claim), case.status)
    assert seen == expected, result.text
    assert ("durable" in seen) is bool(case.settings.get("verify_durable"))
    bad = " ".join(f"{one['observed']} {one['why']}" for one in verdicts if one["claim"] == case.claim)
    assert case.says in bad
    assert report["outcome"] == (case.status if case.claim else "warn")
    assert not result.left, "verify left its pods behind"
    if case.claim:
        assert result.status != 0
        last = result.text.partition("fleet: ")[2].splitlines()[0]
        assert re.search(rf"{report['host']}: [^;]*\b{case.claim}\b", last), last
        assert f"--limit {report['host']}" in result.text


def test_every_claim_has_a_fault() -> None:
    assert {case.claim for case in CASES if case.status == "fail"} == {claim.id for claim in CLAIMS}
    assert all(case.says for case in CASES if case.claim)
