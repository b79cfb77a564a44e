"""The way back, part by part: what is asked for and there goes, everything else is named, and nobody loses a card unasked."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from hami_k3s import traces
from hami_k3s.facts.reset import Leftovers, Reset
from hami_k3s.operations import reset, reset_hami
from hami_k3s.settings import Settings
from tests.unit.operations.fake_host import FakeHost, Run, Then, operate, perform

K3S = ("/usr/local/bin/k3s", "/var/lib/rancher/k3s")
BARE = Leftovers(answered=True)
FULL = Leftovers(
    answered=True,
    k3s="ours",
    api=True,
    database=True,
    working=True,
    nodes=("gpu-1",),
    hami=("release",),
    node="gpu-1",
    marks=("label gpu",),
    pods=(),
    paths={"always": ("/usr/local/vgpu",), "k3s": K3S, "toolkit": ("/etc/apt/keyrings/x.asc",), "stays": ("/d",)},
    packages=("libnvidia-container1",),
    held=("libnvidia-container1",),
)  # fmt: skip
SILENT = replace(FULL, api=False, pods=None, hami=(), marks=(), nodes=())
PODS = ("default/a (nvidia.com/gpu: 1)", "default/b (nvidia.com/gpu: 1)")
ALL = {"reset_k3s": True, "reset_toolkit": True}
SCRIPTS = {"/usr/local/bin/k3s-uninstall.sh": ("#!/bin/sh\n", "755")}


def do(operation: Any, state: Leftovers, **settings: Any) -> tuple[list[Any], str | None]:
    more: dict[str, Any] = {"scripts": SCRIPTS} if operation is reset.k3s else {}
    more |= {"plain": "# plain\n"} if operation is reset.files else {}
    return operate(operation, {Reset: state}, settings=Settings(**settings), **more)


def refused(state: Leftovers, **settings: Any) -> str:
    """What is said, "" when the reset may go on."""
    done, noop = do(reset.unused, state, **settings)
    if not done:
        assert noop == "nobody loses a card"
        return ""
    host = FakeHost()
    assert done[0].run(host) is False
    return host.heard()


OPERATIONS = (reset.unused, reset_hami.hami, reset_hami.node, reset.files, reset.k3s, reset.toolkit, reset.settled,
              reset.audit)  # fmt: skip


@pytest.mark.parametrize("settings", [{}, ALL])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one._inner.__name__)
def test_nothing_there_is_nothing_done(operation: Any, settings: dict[str, Any]) -> None:
    done, noop = do(operation, BARE, **settings)
    assert done == []
    assert noop


def test_pods_with_a_card_are_named_with_the_command_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_NODES", raising=False)
    monkeypatch.setenv("GPU_FLEET", "my fleet.yaml")
    typed = [
        "/x/bin/pyinfra",
        "inventory.py",
        "deploys/reset.py",
        "-y",
        "--limit",
        "all",
        "--data",
        "reset_k3s=true",
    ]
    monkeypatch.setattr(sys, "argv", typed)
    said = refused(replace(FULL, pods=PODS))
    for part in ("2 pods have a card of this node", *PODS, "Nothing was changed on this host"):
        assert part in said
    command = (
        "pyinfra inventory.py deploys/reset.py -y --data reset_k3s=true --data reset_force=true --limit gpu-1"
    )
    assert said.endswith(f"GPU_FLEET='my fleet.yaml' {command}")


@pytest.mark.parametrize(
    ("state", "settings", "words"),
    [
        (replace(FULL, pods=PODS), {}, "2 pods have a card"),
        (replace(FULL, pods=PODS[:1]), ALL, "1 pod has a card"),
        (replace(FULL, pods=PODS), {"reset_force": True}, ""),
        (replace(BARE, k3s="another", api=True, pods=PODS), {}, ""),  # nothing of ours: nothing is taken
        (FULL, ALL, ""),
        (SILENT, {}, ""),  # it is refused, with another reason, where HAMi is to be removed
        (SILENT, ALL, "nobody knows whether they use a card"),
        (SILENT, {**ALL, "reset_force": True}, ""),
        (replace(SILENT, working=False), ALL, ""),  # a k3s that never started
        (replace(SILENT, begun=True), ALL, ""),  # its removal was cut off
    ],
)
def test_when_a_reset_is_refused(state: Leftovers, settings: dict[str, Any], words: str) -> None:
    said = refused(state, **settings)
    assert words in said
    assert bool(said) is bool(words)


def test_hami_is_removed() -> None:
    (work,), _ = do(reset_hami.hami, FULL)
    assert work.arguments[0] == "reset-hami"
    for part in ("uninstall hami", "secret hami-scheduler-tls", "lease hami-scheduler"):
        assert part in work.script
    (work,), _ = do(reset_hami.hami, replace(FULL, hami=("secret hami-scheduler-tls",)))
    assert "uninstall" not in work.script, "no helm is needed where no release is"


def test_hami_leaves_the_node() -> None:
    (call,), _ = do(reset_hami.node, replace(FULL, pods=PODS), reset_force=True)
    host = FakeHost()
    assert call.run(host) is True
    (script,) = host.inputs
    for part in ("node=gpu-1", 'label node "$node" gpu-', "hami.io/node-nvidia-register-"):
        assert part in script
    # after HAMi, so that what their owners make anew finds no card
    assert script.index("register-") < script.index("-n default delete pod a") < script.index("delete pod b")
    assert do(reset_hami.node, replace(BARE, api=True, pods=PODS), reset_force=True)[0] == []


def test_hami_goes_with_its_k3s() -> None:
    assert do(reset_hami.hami, FULL, reset_k3s=True) == ([], "it goes with k3s")
    assert do(reset_hami.node, FULL, reset_k3s=True)[0] == []


def test_a_silent_k3s_keeps_its_hami() -> None:
    (fail,), _ = do(reset_hami.hami, SILENT)
    host = FakeHost()
    assert fail.run(host) is False
    assert "--data reset_k3s=true" in host.heard()
    assert do(reset_hami.hami, replace(SILENT, database=False)) == ([], "nothing of HAMi is there")


JOINED = replace(FULL, nodes=("gpu-1", "gpu-2"))


def test_of_a_cluster_that_goes_on_only_this_node_is_taken() -> None:
    """A node that nobody named in the inventory counts as another host."""
    assert do(reset_hami.hami, JOINED) == ([], "it stays for the other hosts of its cluster")
    assert len(do(reset_hami.node, JOINED)[0]) == 1
    (fail,), _ = do(reset.k3s, JOINED, reset_k3s=True)
    host = FakeHost()
    assert fail.run(host) is False
    assert "others of its cluster would lose their last server" in host.heard()
    assert "(nodes: gpu-1, gpu-2)" in host.heard()
    holds, said = audit(replace(JOINED, marks=(), held=(), paths={}, packages=()))
    assert holds, said


def test_files_and_holds() -> None:
    (work,), _ = do(reset.files, FULL)
    assert "apt-mark unhold libnvidia-container1" in work.script
    assert "rm -rf /usr/local/vgpu ||" in work.script
    assert traces.DROP_IN not in work.script
    (work,), _ = do(reset.files, replace(FULL, paths={"always": (traces.DROP_IN,)}))
    assert f"mv -f {traces.DROP_IN}.hami-k3s-new {traces.DROP_IN}" in work.script, "the rest of it is k3s'"
    assert "rm -rf" not in work.script
    assert do(reset.files, replace(FULL, held=(), paths={"k3s": K3S})) == ([], "nothing of them is there")


def test_k3s_is_removed_only_when_asked() -> None:
    assert do(reset.k3s, FULL) == ([], "k3s stays (reset_k3s is false)")
    (work,), _ = do(reset.k3s, FULL, reset_k3s=True)
    lines = work.script.splitlines()
    assert "mv -f /usr/local/bin/k3s-uninstall.sh.hami-k3s-new /usr/local/bin/k3s-uninstall.sh" in lines
    begun, removed = (
        lines.index(f': >"$root"{traces.BEGUN}'),
        lines.index('"$root"/usr/local/bin/k3s-uninstall.sh'),
    )
    assert begun < removed < lines.index("rm -rf /usr/local/bin/k3s /var/lib/rancher/k3s")


def test_registries_are_given_back_before_k3s_goes() -> None:
    state = replace(FULL, paths={"k3s": (*K3S, "/usr/local/lib/hami-k3s/registries.applied")})
    done, _ = do(reset.k3s, state, reset_k3s=True)
    assert [call.function for call in done] == ["apply", "work"]


def test_another_installers_k3s_is_not_touched() -> None:
    (fail,), _ = do(reset.k3s, replace(BARE, k3s="another"), reset_k3s=True)
    host = FakeHost()
    assert fail.run(host) is False
    assert "another installer's k3s" in host.heard()


def test_the_toolkit_is_removed_only_when_asked() -> None:
    assert do(reset.toolkit, FULL) == ([], "the toolkit stays (reset_toolkit is false)")
    (work,), _ = do(reset.toolkit, FULL, reset_toolkit=True)
    assert "apt-get purge" in work.script
    assert "update-ca-certificates" not in work.script
    with_ca = replace(BARE, paths={"toolkit": ("/usr/local/share/ca-certificates/hami-k3s.crt",)})
    (work,), _ = do(reset.toolkit, with_ca, reset_toolkit=True)
    assert "update-ca-certificates --fresh" in work.script
    assert "purge" not in work.script


def test_what_stays_is_settled() -> None:
    done, _ = do(reset.settled, replace(FULL, stale=True))
    assert done[0] == "systemctl restart --no-block k3s.service"
    assert done[1].function == "_answers"
    done, _ = do(reset.settled, replace(BARE, paths={"run": ("/run/hami-k3s/a b",)}))
    assert done[0] == "rm -rf '/run/hami-k3s/a b'"
    assert do(reset.settled, replace(BARE, k3s="another", stale=True))[0] == []


def audit(state: Leftovers, **settings: Any) -> tuple[bool, str]:
    """(Does it hold, what is said.)"""
    host = FakeHost({Reset: Then([state])})
    done, noop = do(reset.audit, state, **settings)
    if done:
        assert done[0].run(host) is False
    return noop is not None, host.heard()


@pytest.mark.parametrize(
    ("state", "settings", "left"),
    [
        (FULL, {}, "not removed: release, label gpu, /usr/local/vgpu, hold of libnvidia-container1"),
        (replace(FULL, hami=(), marks=(), held=(), paths={"k3s": K3S}), {}, ""),
        (replace(FULL, hami=(), marks=(), held=(), paths={"k3s": K3S}), {"reset_k3s": True}, "not removed: /usr/local/bin/k3s,"),
        (replace(BARE, packages=("libnvidia-container1",)), {}, ""),
        (replace(BARE, packages=("libnvidia-container1",)), ALL, "not removed: package libnvidia-container1"),
        (replace(BARE, paths={"stays": ("/d",), "yours": ("/etc/rancher/k3s/config.yaml",)}), ALL, ""),
        (replace(BARE, paths={"run": ("/run/hami-k3s/helm",)}), {}, "not removed: /run/hami-k3s/helm"),
        (Leftovers(), {}, "the host did not say what is left"),
    ],
)  # fmt: skip
def test_the_audit_fails_only_for_what_was_asked(
    state: Leftovers, settings: dict[str, Any], left: str
) -> None:
    holds, said = audit(state, **settings)
    assert holds is not bool(left)
    assert left in said


def test_the_audit_names_what_stays() -> None:
    host = FakeHost({Reset: FULL})
    Run(host, stage=StateStage.Execute)
    perform(host, reset.audit, settings=Settings())
    for part in (
        "reset_k3s is false: /usr/local/bin/k3s",
        "reset_toolkit is false: libnvidia-container1",
        ": /d",
    ):
        assert part in host.heard()
