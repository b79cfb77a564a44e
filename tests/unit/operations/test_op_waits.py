"""Waiting: progress while it lasts, a limit, and at the end the reason with the last log lines. Time is a stand-in here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hami_k3s import remote, transient, waits
from hami_k3s.facts.hami import Hami
from hami_k3s.facts.k3s import K3s
from hami_k3s.operations import hami, k3s
from hami_k3s.waits import Look, until
from tests.unit.facts.answers import answered
from tests.unit.operations.fake_host import FakeHost, Then, by_word
from tests.unit.operations.test_op_k3s import RUNNING, VERSION
from tests.unit.test_lib_cluster import lab
from tests.unit.test_lib_gates import DONE, PLUGIN, SCHEDULER, node


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (waits, hami, k3s):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(transient, "_begun", set())
    return clock


def looks(*given: Look) -> Any:
    left: Iterator[Look] = iter(given)
    last = [given[-1]]
    return lambda: next(left, last[0])


WAIT, DONE_LOOK = Look("wait", "node is not Ready"), Look("done", "k3s is ready")


def test_done_at_once_says_nothing() -> None:
    host: Any = FakeHost()
    assert until(host, "k3s", 60, looks(DONE_LOOK), "k3s_ready_timeout")
    assert host.said == []


def test_progress_every_few_seconds_then_done() -> None:
    host: Any = FakeHost()
    assert until(host, "k3s", 60, looks(*[WAIT] * 27, DONE_LOOK), "k3s_ready_timeout")
    assert host.said == [
        "k3s: 5 s of 60 s, node is not Ready",
        "k3s: 11 s of 60 s, node is not Ready",
        "k3s: k3s is ready after 15 s",
    ]


def test_limit_shows_reason_log_and_setting(clock: Clock) -> None:
    host: Any = FakeHost()
    assert not until(host, "k3s", 20, looks(WAIT), "k3s_ready_timeout", lambda: "log line 1\nlog line 2")
    assert clock.now <= 1000 + 20 + waits.EVERY
    assert host.said[-4:] == [
        "k3s: not reached in 20 s; last seen: node is not Ready",
        "log line 1",
        "log line 2",
        "k3s_ready_timeout is the limit of this wait, in seconds",
    ]


def test_failed_for_good_ends_at_once(clock: Clock) -> None:
    host: Any = FakeHost()
    assert not until(
        host, "k3s", 600, looks(WAIT, Look("failed", "exit status 1")), "k3s_ready_timeout", lambda: "log"
    )
    assert clock.now < 1010
    assert host.said == ["k3s: exit status 1", "log"]


def test_a_connection_that_is_gone_ends_a_wait(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = SimpleNamespace(is_active=lambda: clock.now < 1010)
    host: Any = FakeHost()
    monkeypatch.setattr(
        host, "connector", SimpleNamespace(client=SimpleNamespace(get_transport=lambda: transport))
    )
    assert not until(host, "k3s", 600, looks(WAIT), "k3s_ready_timeout", lambda: "log")
    assert clock.now < 1015
    assert host.said[-1].startswith("k3s: the connection to the host was lost. Run the same command again")
    assert until(host, "k3s", 600, looks(DONE_LOOK), "k3s_ready_timeout")  # what is seen is seen


class Unit:
    """A host with systemd: one unit, which ends after some looks."""

    def __init__(self, *states: str, start: tuple[bool, str] = (True, "")) -> None:
        self.states, self.start, self.script = list(states), start, ""

    def __call__(self, script: str, stdin: str | None) -> tuple[bool, str]:
        if "systemd-run" in script:
            self.script = stdin or ""
            return self.start
        if "systemctl show" in script:
            return True, self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return True, "first log line\nlast log line"


def work(unit: Unit) -> tuple[bool, FakeHost]:
    host: Any = FakeHost(answer=unit)
    done = transient.work(None, host, "toolkit", "Toolkit", "echo it's\n", 30, "toolkit_timeout")  # type: ignore[arg-type]
    return done, host


def test_step_that_works() -> None:
    unit = Unit("active\n-\ndownloading", "active\n-\n12%", "inactive\n0\nend")
    done, host = work(unit)
    assert done
    assert unit.script == transient.CLEAN_END + "echo it's\n"  # on stdin: not in a process list
    assert "RuntimeMaxSec=30" in host.ran[0]
    assert all(arguments["_sudo"] for arguments in host.arguments)
    assert "_if" not in host.arguments[0]


def test_step_that_fails_shows_its_log() -> None:
    done, host = work(Unit("active\n-\nx", "inactive\n100\nx"))
    assert not done
    assert host.said == ["Toolkit: exit status 100", "first log line", "last log line"]


def test_step_that_was_stopped_names_its_limit() -> None:
    done, host = work(Unit("active\n-\nx", "failed\n-\nx"))
    assert not done
    assert host.said[0] == "Toolkit: killed, or stopped at its limit of 30 s (toolkit_timeout)"


def test_step_that_does_not_end(clock: Clock) -> None:
    done, host = work(Unit("active\n-\nwaiting for the lock"))
    assert not done
    assert clock.now < 1060
    assert "Toolkit: not reached in 40 s; last seen: waiting for the lock" in host.said
    assert "toolkit_timeout is the limit of this wait, in seconds" in host.said


def test_step_that_cannot_start() -> None:
    done, host = work(
        Unit("inactive\n-", start=(False, "Failed to start transient service unit: no space left"))
    )
    assert not done
    assert host.said == ["Toolkit: could not start: Failed to start transient service unit: no space left"]


def test_step_of_an_interrupted_run_is_waited_for_then_run_again() -> None:
    unit = Unit("active\n-\nx", "inactive\n0\nx")
    answers = [(True, "busy"), (True, "")]

    def shell(script: str, stdin: str | None) -> tuple[bool, str]:
        return answers.pop(0) if "systemd-run" in script else unit(script, stdin)

    host: Any = FakeHost(answer=shell)
    assert transient.work(None, host, "toolkit", "Toolkit", "x", 30, "toolkit_timeout")  # type: ignore[arg-type]
    assert "an interrupted run's step is still at work, waiting for it" in host.heard()
    assert sum("systemd-run" in script for script in host.ran) == 2


def test_step_that_was_begun_ahead_is_only_waited_for() -> None:
    unit = Unit("active\n-\n12%", "inactive\n0\nend")
    host: Any = FakeHost(
        answer=lambda script, stdin: (True, "Welcome\na\nb") if stdin else unit(script, stdin)
    )
    a, b, c = (transient.Step(name, "Step", "x", 30, "toolkit_timeout") for name in "abc")
    assert transient.begin(None, host, a, b, c)  # type: ignore[arg-type]
    assert len(host.ran) == 1, "nothing is waited for"
    assert [transient.begun(host, name) for name in ("a", "b", "c", "Welcome")] == [True, True, False, False]
    assert transient.work(None, host, *a)  # type: ignore[arg-type]
    assert not any("systemd-run" in script for script in host.ran)
    assert [transient.begun(host, name) for name in "ab"] == [False, True]


def test_step_that_was_begun_ahead_and_failed_says_why() -> None:
    unit = Unit("failed\n22\nx")
    host: Any = FakeHost(answer=lambda script, stdin: (True, "a") if stdin else unit(script, stdin))
    step = transient.Step("a", "Step", "x", 30, "toolkit_timeout")
    assert transient.begin(None, host, step)  # type: ignore[arg-type]
    assert not transient.work(None, host, *step)  # type: ignore[arg-type]
    assert host.said == ["Step: exit status 22", "first log line", "last log line"]


def test_lost_connection_is_a_reason_not_a_crash() -> None:
    def lost(script: str, stdin: str | None) -> tuple[bool, str]:
        raise OSError("Socket is closed")

    host: Any = FakeHost(answer=lost)
    reason = "the host cannot be reached any more (OSError: Socket is closed)"
    assert remote.run(host, "true") == remote.Result(False, "", reason, lost=reason)
    assert not transient.work(None, host, "x", "X", "y", 30, "toolkit_timeout")  # type: ignore[arg-type]
    assert "Socket is closed" in host.heard()


def test_remote_commands_have_a_limit_and_keep_the_script_whole() -> None:
    host: Any = FakeHost(answer=lambda script, stdin: (True, "a\nb"))
    assert remote.run(host, "echo 'it'; x", timeout=7).stdout == "a\nb"
    assert host.ran == ["timeout -k 5 7 sh -c 'echo '\"'\"'it'\"'\"'; x'"]
    assert host.arguments[0]["_timeout"] > 7


def test_k3s_that_crash_loops_ends_early_with_its_journal(clock: Clock) -> None:
    states = [replace(RUNNING, active="activating", sub="auto-restart", restarts=n) for n in (4, 4, 5, 6, 7)]
    host: Any = FakeHost({K3s: Then(states)}, answer=lambda script, stdin: (True, "level=fatal msg=boom"))
    assert not k3s.wait_ready(None, host, VERSION, 300)  # type: ignore[arg-type]
    assert clock.now < 1020
    assert "k3s starts and dies again and again (6 restarts)" in host.heard()
    assert "level=fatal msg=boom" in host.heard()
    assert any("journalctl -u k3s" in script for script in host.ran)


def test_k3s_comes_up() -> None:
    host: Any = FakeHost({K3s: Then([replace(RUNNING, api=None), replace(RUNNING, own=None), RUNNING])})
    assert k3s.wait_ready(None, host, VERSION, 300)  # type: ignore[arg-type]


HOPELESS = [
    ('level=fatal msg="starting kubernetes: token CA hash does not match the Cluster CA"', "another token"),
    ('level=error msg="failed to normalize server token"', "Remove `token` and `token-file`"),
    ('level=error msg="CA cert validation failed: Unauthorized"', "reset.py and --data reset_k3s=true"),
    (
        'level=info msg="Waiting to retrieve agent configuration: Node password rejected"',
        "NAME.node-password.k3s",
    ),
]


STARTING = replace(RUNNING, active="activating", sub="start")


@pytest.mark.parametrize(("line", "advice"), HOPELESS)
def test_k3s_that_says_it_will_never_get_there(clock: Clock, line: str, advice: str) -> None:
    host: Any = FakeHost({K3s: STARTING}, answer=lambda script, stdin: (True, line))
    assert not k3s.wait_ready(None, host, VERSION, 300)  # type: ignore[arg-type]
    assert k3s.PATIENCE < clock.now - 1000 < 15
    assert f"k3s: {line}" in host.said
    assert advice in host.heard()
    assert "k3s_ready_timeout" not in host.heard()  # more time would not help


def test_k3s_is_given_a_moment_and_its_restarts_a_chance() -> None:
    host: Any = FakeHost(
        {K3s: Then([STARTING, RUNNING])}, answer=lambda script, stdin: (True, HOPELESS[0][0])
    )
    assert k3s.wait_ready(None, host, VERSION, 300)  # type: ignore[arg-type]
    assert host.ran == []


@pytest.mark.parametrize("line", ["", 'level=info msg="Waiting for cri connection"'])
def test_other_lines_end_no_wait(clock: Clock, line: str) -> None:
    host: Any = FakeHost({K3s: STARTING}, answer=lambda script, stdin: (True, line))
    assert not k3s.wait_ready(None, host, VERSION, 30)  # type: ignore[arg-type]
    assert clock.now >= 1030
    assert "last seen: k3s.service is activating (start)" in host.heard()


def test_an_agents_journal_is_that_of_its_own_unit() -> None:
    s1, a1 = lab(1, 1)
    s1.answer = by_word({"/api/v1/nodes": "\n".join(answered({"api": "ok"}))})
    service = "ActiveState=activating\nSubState=start"
    own = "\n".join(answered({"hostname": "a1", "service": service}))
    a1.answer = by_word({"journalctl": HOPELESS[3][0], "hostname | tr": own})
    assert not k3s.wait_ready(None, a1, VERSION, 300)  # type: ignore[arg-type]
    assert "Node password rejected" in a1.heard()
    (journal, *_) = [script for script in a1.scripts() if "journalctl" in script]
    assert "_SYSTEMD_INVOCATION_ID=$(systemctl show k3s-agent.service -p InvocationID --value)" in journal
    assert "last lines of `journalctl -u k3s-agent`:" in a1.said


NOTHING_REGISTERED = replace(DONE, **node(annotations={}))


def ready(*states: Any, limit: int = 300) -> tuple[bool, FakeHost]:
    host: Any = FakeHost(
        {Hami: Then(list(states))}, answer=lambda script, stdin: (True, "could not load NVML library")
    )
    return hami.wait_ready(None, host, "hami", "kube-system", {}, limit), host  # type: ignore[arg-type]


def deleted(host: FakeHost) -> list[str]:
    return [script for script in host.ran if "delete pod" in script]


def test_plugin_that_registers_in_time_is_left_alone() -> None:
    done, host = ready(*[NOTHING_REGISTERED] * 10, DONE)
    assert done
    assert deleted(host) == []


def test_plugin_that_never_registers_is_restarted_once() -> None:
    done, host = ready(NOTHING_REGISTERED)
    assert not done
    (restart,) = deleted(host)
    assert "hami-device-plugin-x" in restart
    assert "hami-scheduler-x" not in restart
    assert "HAMi #2418" in host.heard()
    assert "no annotation hami.io/node-nvidia-register" in host.heard()
    assert (
        "its pod was not started by NVIDIA's runtime" in host.heard() or "no driver library" in host.heard()
    )
    assert "hami_ready_timeout" in host.heard()


def test_a_plugin_that_is_not_there_is_not_restarted() -> None:
    done, host = ready(replace(NOTHING_REGISTERED, pods=(SCHEDULER, replace(PLUGIN, ready=False))))
    assert not done
    assert deleted(host) == []
