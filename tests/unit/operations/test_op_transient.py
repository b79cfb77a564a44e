"""A step as the host's shell sees it: the real commands, with systemd-run and systemctl played by a few lines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import StringCommand

from hami_k3s import transient
from tests.unit.operations.fake_host import FakeHost

TOOLS = {
    "systemd-run": 'while [ "$1" != sh ]; do shift; done\n"$@"\nexit 0\n',
    "systemctl": 'case "$1" in is-active) exit 3 ;; show) echo inactive ;; esac\n',
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, body in TOOLS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(transient, "FOLDER", str(tmp_path / "run"))
    monkeypatch.setattr(transient, "_begun", set())

    def answer(script: str, stdin: str | None) -> tuple[bool, str]:
        done = subprocess.run(
            ["sh", "-c", script],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr

    return FakeHost(answer=answer)


def work(host: Any, script: str) -> bool:
    return transient.work(None, host, "step", "Step", script, 30, "toolkit_timeout")  # type: ignore[arg-type]


def test_success_keeps_the_log_to_root(host: Any, tmp_path: Path) -> None:
    assert work(host, 'echo "it\'s $((1 + 1))"\necho two >&2\n')
    folder = tmp_path / "run" / "step"
    assert (folder / "log").read_text() == "it's 2\ntwo\n"
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert host.said == []


def test_failure_shows_the_status_and_the_last_lines(host: Any) -> None:
    assert not work(host, "i=0; while [ $i -lt 50 ]; do i=$((i + 1)); echo line $i; done; exit 7")
    assert host.said[0] == "Step: exit status 7"
    assert host.said[-1] == "line 50"
    assert len(host.said) < 25


def test_failure_without_a_word(host: Any) -> None:
    assert not work(host, "exit 1")
    assert host.said == ["Step: exit status 1"]


def test_an_earlier_result_is_not_taken_for_this_one(host: Any) -> None:
    assert work(host, "exit 0")
    assert not work(host, "kill -9 $PPID")  # the unit is killed before it can write its status
    assert "killed, or stopped at its limit" in host.said[0]


def test_progress_of_a_download_is_its_number(host: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "step"
    folder.mkdir(parents=True)
    (folder / "log").write_text(
        "fetching\n\r########                  12.3%\r##################        56.7%"
    )
    shown = host.run_shell_command(StringCommand(transient._show("step")))[1]
    assert shown.stdout_lines == ["inactive", "-", "56.7%"]


def test_one_command_for_a_step_that_ends_soon(host: Any) -> None:
    assert work(host, "exit 0")
    assert len(host.ran) == 1


def test_steps_begun_ahead_are_started_with_one_command(host: Any, tmp_path: Path) -> None:
    script = "echo \"it's $((1 + 1))\"\ncat <<'END'\nEND\n"
    one, two = (transient.Step(name, name, script, 30, "toolkit_timeout") for name in ("one", "two"))
    assert transient.begin(None, host, one, two)  # type: ignore[arg-type]
    assert len(host.ran) == 1
    for name in ("one", "two"):
        assert (tmp_path / "run" / name / "log").read_text() == "it's 2\n"
        assert oct((tmp_path / "run" / name / "script").stat().st_mode & 0o777) == "0o600"
        assert transient.begun(host, name)
    assert transient.work(None, host, *one)  # type: ignore[arg-type]
    assert len(host.ran) == 2


def test_a_step_that_is_at_work_is_not_begun_beside_itself(host: Any, tmp_path: Path) -> None:
    (tmp_path / "systemctl").write_text('#!/bin/sh\n[ "$3" = hami-k3s-one.service ]\n')
    one, two = (transient.Step(name, name, "exit 0", 30, "toolkit_timeout") for name in ("one", "two"))
    assert transient.begin(None, host, one, two)  # type: ignore[arg-type]
    assert [transient.begun(host, name) for name in ("one", "two")] == [False, True]
    assert not (tmp_path / "run" / "one").exists()
