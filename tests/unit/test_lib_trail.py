"""What a run leaves behind, whatever happens to it: real pyinfra commands on this machine, with a host that is not there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hami_k3s import command_line
from hami_k3s.reports.folder import run_directory

ROOT = Path(__file__).resolve().parents[2]
PYINFRA = str(Path(sys.executable).parent / "pyinfra")
DEPLOY = """
from pyinfra import host
from pyinfra.api import operation, FunctionCommand
from pyinfra.operations import server
from hami_k3s import waits
from hami_k3s.reports import trail


@operation()
def refused():
    yield FunctionCommand(waits.fail, ("it cannot be:\\nthe reason | of it\\nand more",), {})


@operation()
def nothing():
    host.noop("as it should be")
    yield from ()


trail.follow(host.state, "reports")
nothing(name="Nothing to do")
server.shell(name="Work", commands=["WORK"])
if "FAIL":
    refused(name="Refused")
"""


def command(folder: Path, *options: str, work: str = "true", fail: str = "") -> subprocess.Popen[str]:
    deploy = folder / "deploy.py"
    deploy.write_text(DEPLOY.replace("WORK", work).replace("FAIL", fail))
    return subprocess.Popen(
        [PYINFRA, *options, "deploy.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "pyinfra")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines(folder: Path) -> list[dict[str, Any]]:
    (file,) = (folder / "reports").glob("*/trail.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def results(found: list[dict[str, Any]]) -> dict[str, str]:
    return {one["operation"]: one["result"] for one in found if one["event"] == "ended"}


def until(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_each_operation_and_what_to_do_about_hosts_that_failed(tmp_path: Path) -> None:
    options = ("@local,127.0.0.1", "-y", "--ssh-port", "9", "--ssh-password", "hunter2", "--limit", "*")
    process = command(tmp_path, *options, fail="yes")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1, said
    found = lines(tmp_path)
    assert [found[0]["event"], found[-1]["event"]] == ["run begins", "run ended"]
    assert found[0]["hosts"] == ["@local", "127.0.0.1"]
    assert (found[0]["operator"], found[0]["process"]) == (command_line.operator(), process.pid)
    assert set(found[0]["versions"]) == {"pyinfra-hami-k3s", "pyinfra", "python"}
    assert results(found) == {"Nothing to do": "no change", "Work": "changed", "Refused": "failed"}
    (failed,) = (one for one in found if one.get("result") == "failed" and one["event"] == "ended")
    assert failed["why"] == ["it cannot be:", "the reason | of it", "and more"]
    assert found[-1]["hosts"]["@local"] == {"result": "failed", "why": "it cannot be: the reason | of it"}
    assert found[-1]["hosts"]["127.0.0.1"]["result"] == "unreachable"
    assert all(datetime.fromisoformat(one["at"]).tzinfo == UTC for one in found)

    again = "pyinfra @local,127.0.0.1 -y --ssh-port 9 --ssh-password *** deploy.py --limit @local --limit 127.0.0.1"
    tail = said.splitlines()[-6:]
    assert "0 of 2 hosts are done, 2 not:" in tail
    assert "  @local: failed at Refused: it cannot be: the reason | of it" in tail
    assert f"again for only those: {again}" in tail
    page = next((tmp_path / "reports").glob("*/trail.md"))
    assert f"trail: {page.relative_to(tmp_path)}" in tail
    assert "| failed | it cannot be: / the reason \\| of it / and more |" in page.read_text()
    assert again in page.read_text()
    assert "hunter2" not in said + page.read_text() + json.dumps(found)


def test_a_run_that_is_done_says_where_its_trail_is_and_no_more(tmp_path: Path) -> None:
    process = command(tmp_path, "@local", "-y")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    found = lines(tmp_path)
    assert found[-1]["result"] == "ok"
    assert re.fullmatch(r"trail: reports/[0-9TZ-]+/trail\.md", said.splitlines()[-1])
    assert "again" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run(tmp_path: Path, number: int) -> None:
    process = command(tmp_path, "@local", "-y", work=f"touch {tmp_path}/begun; sleep 30")
    until(tmp_path / "begun")
    process.send_signal(number)
    said = process.communicate(timeout=20)[0]
    assert process.returncode != 0, said
    found = lines(tmp_path)
    assert results(found) == {"Nothing to do": "no change", "Work": "interrupted"}
    assert found[-1]["hosts"]["@local"]["result"] == "interrupted"
    assert (
        next((tmp_path / "reports").glob("*/trail.md")).read_text().splitlines()[0].endswith(": interrupted")
    )


def test_a_killed_run_has_left_its_lines(tmp_path: Path) -> None:
    process = command(
        tmp_path, "@local", "-y", work=f"touch {tmp_path}/begun; sleep 5 </dev/null >/dev/null 2>&1"
    )
    until(tmp_path / "begun")
    process.kill()
    process.wait()
    assert [(one["event"], one.get("operation")) for one in lines(tmp_path)][-1] == ("begins", "Work")


def test_nothing_ran_no_trail(tmp_path: Path) -> None:
    process = command(tmp_path, "@local", "--dry")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    assert not (tmp_path / "reports").exists()


def test_no_host_at_all_was_reached(tmp_path: Path) -> None:
    """The deploy file is not even read: the inventory has begun the trail."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("GPU_")}
    done = subprocess.run(
        [PYINFRA, str(ROOT / "inventory.py"), str(ROOT / "deploys/gpu_node.py"), "-y"],
        cwd=tmp_path,
        env={**own, "GPU_NODES": "root@127.0.0.1:9", "PYTHONPATH": str(ROOT / "pyinfra")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    gone = lines(tmp_path)[-1]["hosts"]["127.0.0.1:9"]
    assert gone["result"] == "unreachable"
    assert "Unable to connect to port 9" in gone["why"]


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file")
    process = command(tmp_path, "@local", "-y", work=f"touch {tmp_path}/begun")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    assert said.count("the trail of this run cannot be written") == 1
    assert "set report_folder" in said
    assert (tmp_path / "begun").exists()


def test_a_run_of_the_same_second_has_a_folder_of_its_own(tmp_path: Path) -> None:
    first = run_directory(str(tmp_path))
    run_directory.cache_clear()  # as another process
    second = run_directory(str(tmp_path))
    assert first.is_dir()
    assert second.name == f"{first.name}-{os.getpid()}"
