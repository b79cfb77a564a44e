"""What an upgrade may do to a node, and what it asks for first."""

from __future__ import annotations

from typing import Any

import pytest

from hami_k3s.settings import Settings
from hami_k3s.upgrade_plan import (
    Now,
    drains,
    k3s_refusal,
    must_stay,
    plugins,
    pods_in_the_way,
    staying,
    strategy,
)

CHANNELS = "https://update.k3s.io/v1-release/channels"
WANTED = "v1.36.2+k3s1"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (None, ""),
        (WANTED, ""),
        ("v1.36.1+k3s2", ""),
        ("v1.35.6+k3s1", ""),
        ("v1.34.9+k3s1", "First go to a release of v1.35: the same command with --data k3s_version=v1.35.N"),
        ("v1.31.0+k3s1", f"({CHANNELS}/v1.32 names the newest)"),
        ("v1.36.2+k3s2", "k3s cannot go back. Set k3s_version: v1.36.2+k3s2"),
        ("v1.37.0+k3s1", "newer than v1.36.2+k3s1"),
    ],
)
def test_no_minor_version_is_left_out_and_none_is_gone_back_to(server: str | None, said: str) -> None:
    found = k3s_refusal(server, WANTED, CHANNELS)
    assert bool(found) == bool(said)
    assert said in found


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Now(WANTED, WANTED, "2.9.0"), []),
        (Now("v1.36.1+k3s1", None, "2.9.0"), []),  # a patch: k3s is restarted, pods go on
        (Now("v1.35.6+k3s1", None, "2.9.0"), ["another minor version"]),
        (Now(WANTED, None, "2.8.1"), ["HAMi 2.8.1 -> 2.9.0"]),
        (Now("v1.35.6+k3s1", None, "2.6.1"), ["another minor version", "its library is copied over"]),
        (Now(), []),
    ],
)
def test_a_node_must_be_empty_for_another_minor_version_and_for_another_library(
    now: Now, words: list[str]
) -> None:
    found = drains(now, Settings())
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_a_refusal_names_every_pod_and_ends_with_the_command() -> None:
    lines = pods_in_the_way("a1", ["k3s"], ["x/one (g: 1)", "x/two (g: 2)"], "pyinfra --data y").splitlines()
    assert lines[0].startswith("2 pods have a card of node a1")
    assert lines[1:3] == ["- x/one (g: 1)", "- x/two (g: 2)"]
    assert lines[-1].strip() == "pyinfra --data y"


OURS = {"devicePlugin": {"updateStrategy": {"type": "OnDelete"}, "service": {"type": "ClusterIP"}}}


@pytest.mark.parametrize(
    ("chart", "values", "own", "stays"),
    [
        ("2.9.0", {}, {}, False),
        ("2.8.1", {}, {}, True),
        ("2.9.0", OURS, {}, True),  # an interrupted upgrade
        ("2.9.0", OURS, OURS, False),  # the user's own wish
        (None, {}, {}, False),  # nothing is installed
    ],
)
def test_the_plugin_stays_while_its_chart_changes_and_until_every_node_had_its_turn(
    chart: str | None, values: dict[str, Any], own: dict[str, Any], stays: bool
) -> None:
    assert must_stay(Now(chart=chart), values, Settings(hami_values=own)) is stays


def test_staying_keeps_the_users_other_values() -> None:
    settings = staying(Settings(hami_values={"devicePlugin": {"deviceSplitCount": 4}}))
    assert strategy(settings.hami_values) == "OnDelete"
    assert settings.hami_values["devicePlugin"]["deviceSplitCount"] == 4
    assert strategy({"devicePlugin": {"updateStrategy": None}}) is None


def _revision(digest: str, number: int) -> dict[str, Any]:
    labels = {"controller-revision-hash": digest}
    return {"kind": "ControllerRevision", "metadata": {"name": digest, "labels": labels}, "revision": number}


def _pod(name: str, node: str, digest: str, **meta: Any) -> dict[str, Any]:
    labels = {"controller-revision-hash": digest}
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels, **meta}, "spec": {"nodeName": node}}


def _set(generation: int, seen: int) -> dict[str, Any]:
    return {
        "kind": "DaemonSet",
        "metadata": {"generation": generation},
        "status": {"observedGeneration": seen},
    }


def test_plugins_of_an_older_template_are_found_by_the_newest_revision() -> None:
    items = [
        _set(3, 3),
        _revision("new", 2),
        _revision("old", 1),
        _pod("p1", "a1", "old"),
        _pod("p2", "a2", "new"),
        _pod("p3", "a3", "old", deletionTimestamp="2026-07-07T00:00:00Z"),
    ]
    found = plugins(items)
    assert (found.settled, found.older) == (True, {"a1": "p1"})
    # An older template that came back has the highest number.
    items[1:3] = [_revision("new", 2), _revision("old", 3)]
    assert plugins(items).older == {"a2": "p2"}


def test_nothing_is_said_of_a_template_that_its_controller_has_not_seen() -> None:
    assert not plugins([_set(4, 3), _revision("old", 1)]).settled
    assert not plugins([_set(1, 0)]).settled
    assert plugins([]).settled
