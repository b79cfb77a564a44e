"""The HAMi release in every state helm knows, HAMi's gates."""

from dataclasses import replace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s import chart
from hami_k3s.facts.hami import Hami, HamiState
from hami_k3s.facts.helm import Release, ReleaseState
from hami_k3s.operations import hami, helm
from hami_k3s.settings import Settings
from tests.unit.operations.fake_host import Call, FakeHost, Run, Then, operate, perform, server
from tests.unit.operations.test_op_k3s import VERSION
from tests.unit.test_lib_gates import DONE

SETTINGS = Settings()
WANTED = chart.values(SETTINGS, VERSION, 1, 1)
DEPLOYED = ReleaseState(
    status="deployed",
    revision=2,
    chart="hami",
    chart_version="2.9.0",
    values=WANTED,
    good_revision=2,
    server_version=VERSION,
    nodes=1,
    servers=1,
    age_s=4000,
)


def release(*states: ReleaseState, settings: Settings = SETTINGS) -> tuple[list[Any], str | None]:
    return operate(helm.hami, {Release: Then(list(states))}, settings=settings)


def test_release_that_is_the_same() -> None:
    assert release(DEPLOYED) == ([], "HAMi 2.9.0 is deployed with these values")


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "absent", "revision": 0, "values": {}, "chart_version": None, "good_revision": None},
        {"chart_version": "2.8.0"},
        {"values": {}},
        {"server_version": "v1.37.0+k3s1"},  # the server was upgraded: another scheduler tag
        {"servers": 3, "nodes": 5},  # several schedulers, one of them leading
        {"status": "failed"},  # the same values, and yet it must run again
        {"status": "uninstalled"},
    ],
)
def test_release_that_must_be_installed_or_upgraded(changes: dict[str, Any]) -> None:
    (work,), noop = release(replace(DEPLOYED, **changes))
    assert noop is None
    assert work.arguments[:2] == ("helm", "HAMi 2.9.0")
    assert work.arguments[3:] == (3 * 300 + 120, "hami_ready_timeout")
    assert "upgrade --install hami" in work.script
    assert " uninstall " not in work.script
    assert " rollback " not in work.script


def test_the_scheduler_tag_follows_the_server_of_this_moment() -> None:
    (work,), _ = release(replace(DEPLOYED, server_version="v1.35.4+k3s2"))
    assert '"tag": "v1.35.4"' in work.script


@pytest.mark.parametrize(
    ("status", "good", "first", "not_there"),
    [
        ("pending-install", None, " uninstall hami -n kube-system", " rollback "),
        ("uninstalling", 2, " uninstall hami -n kube-system", " rollback "),
        ("pending-upgrade", 1, " rollback hami 1 -n kube-system", " uninstall "),
        ("pending-rollback", 7, " rollback hami 7 -n kube-system", " uninstall "),
        ("pending-upgrade", None, " uninstall hami -n kube-system", " rollback "),
    ],
)
def test_release_that_an_earlier_run_left_half_way(
    status: str, good: int | None, first: str, not_there: str
) -> None:
    done, _ = release(replace(DEPLOYED, status=status, good_revision=good))
    assert [call.function for call in done] == ["wait_for_helm", "work"]
    script = done[1].script
    assert script.index(first) < script.index("upgrade --install hami")
    assert not_there not in script
    assert f"({status})" in script


def test_somebody_elses_helm_is_waited_for_and_its_result_counts() -> None:
    done, noop = release(replace(DEPLOYED, status="pending-upgrade", working=True), DEPLOYED)
    assert [call.function for call in done] == ["wait_for_helm"]
    assert noop == "HAMi 2.9.0 is deployed with these values"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"status": None, "error": "Error: kubernetes cluster unreachable"},
            "kubernetes cluster unreachable",
        ),
        ({"server_version": None}, "the API server does not answer"),
        ({"servers": None}, "the API server does not answer"),
        ({"nodes": None}, "the API server does not answer"),
    ],
)
def test_release_that_cannot_be_read_fails_this_host(changes: dict[str, Any], words: str) -> None:
    (fail,), noop = release(replace(DEPLOYED, **changes))
    host = FakeHost()
    assert fail.run(host) is False
    assert words in host.heard()
    assert "journalctl -u k3s" in host.heard()
    assert noop is None


def test_only_one_server_of_a_cluster_installs() -> None:
    s1, s2 = server("s1", facts={Release: Then([DEPLOYED])}), server("s2")
    run = Run(s1, s2, stage=StateStage.Execute)
    assert perform(s2, helm.hami, settings=SETTINGS) == ([], "another server of the cluster installs HAMi")
    assert perform(s1, helm.hami, settings=SETTINGS) == ([], "HAMi 2.9.0 is deployed with these values")
    run.fail(s1)
    s2.facts = {Release: Then([replace(DEPLOYED, chart_version="2.8.0")])}
    (work,), _ = perform(s2, helm.hami, settings=SETTINGS)
    assert isinstance(work, Call)
    assert "upgrade --install hami" in work.script


def test_user_values_are_part_of_what_is_compared() -> None:
    settings = Settings(hami_values={"devicePlugin": {"deviceSplitCount": 4}})
    assert len(release(DEPLOYED, settings=settings)[0]) == 1
    same = replace(DEPLOYED, values=chart.values(settings, VERSION, 1, 1))
    assert release(same, settings=settings)[0] == []


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, None),
        ({"status": "pending-upgrade", "age_s": 4000}, None),
        ({"status": "pending-upgrade", "age_s": 3, "cut_off": True}, None),
        ({"status": "pending-upgrade", "age_s": None}, None),
        (
            {"status": "pending-upgrade", "age_s": 3},
            "pending-upgrade for 3 s, perhaps by a helm on another machine",
        ),
        ({"working": True}, "a helm process is at work on the host"),
    ],
)
def test_wait_for_helm(changes: dict[str, Any], seen: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    monkeypatch.setattr(helm, "until", lambda host, what, limit, look, setting: looks.append(look()) or True)
    host: Any = FakeHost({Release: replace(DEPLOYED, **changes)})
    helm.wait_for_helm(None, host, {"release": "r", "namespace": "n"}, 300)  # type: ignore[arg-type]
    (look,) = looks
    assert look.state == ("wait" if seen else "done")
    assert (seen or "") in look.seen


READY = {"release": "hami", "namespace": "kube-system", "values": {}, "limit": 300}


def test_hami_that_works() -> None:
    assert operate(hami.ready, {Hami: DONE}, **READY) == ([], "HAMi works")


@pytest.mark.parametrize("state", [HamiState(), replace(DONE, pods=()), replace(DONE, webhook=None)])
def test_hami_that_does_not_work_yet(state: HamiState) -> None:
    (wait,), _ = operate(hami.ready, {Hami: state}, **READY)
    assert isinstance(wait, Call)
    assert (wait.function, wait.arguments) == ("wait_ready", ("hami", "kube-system", {}, 300))
