"""What is fetched ahead: only what a later step will need, and nothing on a host that has it all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hami_k3s import transient
from hami_k3s.chart import values
from hami_k3s.facts.binary import Binary, BinaryState
from hami_k3s.facts.helm import Release, ReleaseState
from hami_k3s.operations import downloads, helm
from hami_k3s.releases.origin import Origin
from hami_k3s.settings import Settings
from tests.unit.operations.fake_host import Call, Then, operate

SETTINGS = Settings()
FRESH = BinaryState("x86_64")
THERE = BinaryState("x86_64", True)
DEPLOYED = ReleaseState(
    status="deployed",
    revision=1,
    chart="hami",
    chart_version=SETTINGS.hami_chart_version,
    values=values(SETTINGS, SETTINGS.k3s_version, 1, 1),
    server_version=SETTINGS.k3s_version,
    nodes=1,
    servers=1,
)


def begun(binaries: Any, release: ReleaseState, **more: Any) -> tuple[list[transient.Step], str | None]:
    facts = {Binary: binaries, Release: release}
    done, noop = operate(downloads.begin, facts, **{"settings": SETTINGS, "origin": Origin(), **more})
    steps = [step for call in done if isinstance(call, Call) for step in call.arguments]
    return steps, noop


def test_everything_on_a_fresh_host() -> None:
    steps, _ = begun(FRESH, ReleaseState())
    assert [step.name for step in steps] == ["k3s-download", "helm-download", "helm-chart"]
    assert [step.setting for step in steps] == [
        "k3s_download_timeout",
        "helm_download_timeout",
        "hami_ready_timeout",
    ]
    assert "hami-k3s-helm-download.service" in steps[2].script


def test_nothing_where_nothing_is_missing() -> None:
    assert begun(THERE, DEPLOYED) == ([], "nothing is to be fetched")


def test_only_what_is_missing() -> None:
    assert [step.name for step in begun(Then([THERE, FRESH]), DEPLOYED)[0]] == ["helm-download"]
    other = replace(DEPLOYED, chart_version="2.8.0")
    assert [step.name for step in begun(THERE, other)[0]] == ["helm-chart"]
    assert helm.settled(DEPLOYED, SETTINGS, Origin())
    assert not helm.settled(other, SETTINGS, Origin())
