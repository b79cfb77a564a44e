"""The judge: order, needs, what could not be measured, and what a check raises."""

from dataclasses import fields, replace

import pytest

from hami_k3s.isolation.claims import CLAIMS, OPTIONAL, judge, unmet
from hami_k3s.isolation.evidence import Evidence, Webhook
from hami_k3s.isolation.verdict import Status, Verdict, worst
from tests.recorded.lab import evidence
from tests.recorded.one_change import verdicts

lab = evidence()


def test_all_claims_hold_on_the_labs_evidence() -> None:
    found = judge(lab)
    assert [verdict.claim for verdict in found] == [
        "driver",
        "runtime",
        "sole-provider",
        "scheduler-version",
        "webhook",
        "registered",
        "allocatable",
        "co-resident",
        "slice-visible",
        "refused",
        "neighbour",
        "control",
        "pending",
        "pending-control",
        "mechanism",
        "routes",
        "no-request",
        "durable",
    ]
    assert [verdict for verdict in found if verdict.status is not Status.PASS] == []
    assert all(verdict.expected and verdict.observed for verdict in found)


@pytest.mark.parametrize("claim", [claim.id for claim in CLAIMS if claim.id not in OPTIONAL])
def test_nothing_measured_is_never_a_pass(claim: str) -> None:
    blank = Evidence("rtx-1", errors={"cards": "ssh: connection refused"})
    assert verdicts(blank)[claim].status in (Status.ERROR, Status.SKIP)
    assert worst(judge(blank)) is Status.ERROR


PARTS = [
    field.name
    for field in fields(Evidence)
    if field.default is None
    and field.name not in ("node", "node_ready", "card_uuid", "default_handler", "kernel_module")
]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_could_not_be_measured_is_an_error_with_its_reason(part: str) -> None:
    found = judge(evidence(**{part: None}, errors={part: "kubectl: the server is gone"}))
    errors = [verdict for verdict in found if verdict.status is Status.ERROR]
    assert errors
    assert all("the server is gone" in verdict.why for verdict in errors)
    assert {verdict.status for verdict in found} <= {Status.PASS, Status.ERROR, Status.SKIP}


def test_an_exception_in_a_check_is_that_claims_error() -> None:
    def broken(_: Evidence) -> Verdict:
        raise ZeroDivisionError("oh")

    claims = [replace(claim, decide=broken) if claim.id == "runtime" else claim for claim in CLAIMS]
    found = {verdict.claim: verdict for verdict in judge(lab, claims)}
    assert found["runtime"].status is Status.ERROR
    assert "ZeroDivisionError: oh" in found["runtime"].why
    assert found["mechanism"].status is Status.PASS


def test_the_reason_of_a_skip_names_what_does_not_hold() -> None:
    late = evidence(webhook=Webhook((), None))
    assert unmet("co-resident", late) == "needs webhook, which does not hold (fail)"
    assert verdicts(late)["mechanism"].why == "needs co-resident, which does not hold (skip)"
    assert unmet("co-resident", lab) == ""


def test_a_claim_may_need_one_that_stands_below_it_and_never_itself() -> None:
    ids = [claim.id for claim in CLAIMS]
    assert len(set(ids)) == len(ids)
    needs = {claim.id: claim.needs for claim in CLAIMS}

    def above(claim: str, seen: tuple[str, ...] = ()) -> None:
        assert claim not in seen
        for need in needs[claim]:
            assert need in ids
            above(need, (*seen, claim))

    for claim in ids:
        above(claim)
    without = evidence(mechanism=replace(lab.mechanism, preload=None))
    assert verdicts(without)["refused"].why == "needs mechanism, which does not hold (fail)"


def test_durable_is_left_out_unless_somebody_asked_for_it() -> None:
    assert "durable" not in verdicts(evidence(durable=None))
    assert verdicts(evidence(durable=None, errors={"durable": "no pod"}))["durable"].status is Status.ERROR


def test_the_claims_of_the_node_are_one_block_of_the_lab() -> None:
    assert {claim.id for claim in CLAIMS if claim.scope == "node"} == {
        "driver",
        "runtime",
        "sole-provider",
        "scheduler-version",
        "webhook",
        "registered",
        "allocatable",
        "no-request",
    }


def test_worst() -> None:
    def with_status(*statuses: Status) -> list[Verdict]:
        return [Verdict("x", status, "", "") for status in statuses]

    assert worst([]) is Status.ERROR
    assert worst(with_status(Status.PASS, Status.WARN)) is Status.WARN
    assert worst(with_status(Status.ERROR, Status.SKIP, Status.PASS)) is Status.ERROR
    assert worst(with_status(Status.ERROR, Status.FAIL)) is Status.FAIL
