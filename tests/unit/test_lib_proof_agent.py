"""Filling slices of an agent's card: a server runs the probes, the agent's own host looks at its card in between."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import pytest
from gevent import subprocess

from hami_k3s import cluster, hold
from hami_k3s.isolation.evidence import ProbeRun
from hami_k3s.isolation.plan import plan
from hami_k3s.proof import inside
from hami_k3s.proof.pods import Space
from hami_k3s.proof.program import Program
from tests.recorded.lab import recorded
from tests.unit.test_lib_cluster import lab

UUID = "GPU-f267499c-37f0-6227-95d2-9659518eaae9"
HEADER = recorded("h200/nvidia-smi-query.csv").splitlines()[0]
PLAN = plan(143771, 143156)
RESULT = {"refused": True, "allocated_mib": 900, "chunk_mib": 100, "cap_mib": 2000, "route": "sync"}
# A pod's probe says that it was refused and holds its memory until its stdin is closed.
EXEC = f"""case "$*" in *--\\ *) ;; *) echo "unexpected: $*" >&2; exit 9;; esac
echo "$*" >>"$0.log"
printf '%s\\n' '{json.dumps(RESULT)}'
cat >/dev/null
echo held >&2"""
# Each look at the card finds less.
SMI = f"""case "$1" in --query-gpu=*) ;; *) echo "the table"; exit 0;; esac
echo x >>"$0.log"
n=$(wc -l <"$0.log")
echo '{HEADER}'
memory="143771 MiB, $((n * 1000)) MiB, $((143000 - n * 1000)) MiB"
echo "0, {UUID}, NVIDIA H200, 00000000:00:06.0, $memory, Disabled, 580.159.04, 9.0, Default, Enabled, Enabled\""""


def shell(folder: Path, **tools: str) -> Callable[[str, str | None], tuple[bool, str]]:
    """A host whose commands really run, these among them; other greenlets go on meanwhile."""
    folder.mkdir()
    for name, script in tools.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name.replace("_", "-")).chmod(0o755)

    def answer(script: str, stdin: str | None) -> tuple[bool, str]:
        done = subprocess.run(
            ["sh", "-c", script],
            input=stdin or "",
            env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr

    return answer


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A server with pods' probes and an agent with a card."""
    s1, a1 = lab(1, 1)
    s1.answer = shell(tmp_path / "server", k3s=EXEC, nvidia_smi="echo 'the wrong host' >&2; exit 1")
    a1.answer = shell(tmp_path / "agent", nvidia_smi=SMI)
    monkeypatch.setattr(inside, "FOLDER", str(tmp_path / "run"))
    monkeypatch.setattr(cluster, "api", lambda host: s1)
    return [s1, a1]


def fill(host: Any, *pods: str) -> tuple[list[ProbeRun], str, str]:
    with gevent.Timeout(50):
        return inside.fill(Space(host, "a1", "verify-1", {}), list(pods), UUID, PLAN, Program("driver"))


def test_the_card_is_looked_at_in_its_own_host_while_the_slices_are_held(
    hosts: list[Any], tmp_path: Path
) -> None:
    s1, a1 = hosts
    runs, table, problem = fill(a1, "one", "two")
    assert problem == ""
    assert table == "the table"
    assert [(run.pod, run.exit_status) for run in runs] == [("one", 0), ("two", 0)]
    assert [run.result is not None and run.result.refused for run in runs] == [True, True]
    assert [(run.host_free_mib, run.host_used_mib) for run in runs] == [(142000, 1000), (141000, 2000)]
    assert all("held" in run.stderr for run in runs)  # none had ended before the last look
    asked = (tmp_path / "server" / "k3s.log").read_text().splitlines()
    assert [line.split(" -- ")[0].split()[-1] for line in asked] == ["one", "two"]
    assert not any("nvidia-smi" in script for script in s1.scripts() if "mkfifo" not in script)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_card_that_cannot_be_looked_at(hosts: list[Any], tmp_path: Path) -> None:
    _, a1 = hosts
    a1.answer = shell(tmp_path / "broken", nvidia_smi="echo 'Unable to determine the device handle'; exit 15")
    ((run,), table, problem) = fill(a1, "one")
    assert (problem, run.host_free_mib) == ("", None)
    assert "Unable to determine" in table
    status = next(script for script in hosts[0].scripts() if "status1" in script and "mv" in script)
    assert "echo 15 >" in status


def test_a_pod_that_is_not_there(hosts: list[Any], tmp_path: Path) -> None:
    s1, a1 = hosts
    s1.answer = shell(tmp_path / "without", k3s="echo 'pods \"one\" not found' >&2; exit 1")
    ((run,), _, problem) = fill(a1, "one")
    assert (problem, run.exit_status, run.result) == ("", 1, None)
    assert 'pods "one" not found' in run.stderr


def test_a_server_that_is_lost_meanwhile(hosts: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is run there, and nothing waits for it."""
    _, a1 = hosts
    monkeypatch.setattr(hold, "lost", lambda host: "the server was lost" if host.name == "s1" else None)
    runs, _, problem = fill(a1, "one")
    assert (runs, problem) == ([], "the probe could not be run: the server was lost")
