"""The lock of a host: held by the life of a session, said by whom, and free again however the session ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_k3s.templating import render

ROOT = Path(__file__).resolve().parents[2]
PYINFRA = str(Path(sys.executable).parent / "pyinfra")
OWNER = "anna@laptop (process 42 there), since noon, with: pyinfra inventory.py deploys/it's.py"
DEPLOY = """
from pyinfra.operations import server
from hami_k3s import hold
from hami_k3s.operations import lock

hold.LOCK, hold.UNITS = {lock!r}, "hami-k3s-none-*.service"
lock.alone(name="Alone", limit={limit})
server.shell(name="Work", commands=[{work!r}])
"""


class Session:
    """The script as an SSH session of the host would run it."""

    def __init__(self, lock: Path, silence: int = 60) -> None:
        script = render("lock.bash", lock=str(lock), unit="hami-k3s-none-*.service", silence=silence)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            ["bash", "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def says(self, owner: str = OWNER) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{owner}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "the host's lock"


@pytest.fixture
def first(lock: Path) -> Iterator[Session]:
    session = Session(lock)
    assert session.says() == "held"
    yield session
    session.end()


def free(lock: Path) -> bool:
    return subprocess.run(["flock", "-n", str(lock), "true"], check=False).returncode == 0


def until_free(lock: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not free(lock):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_second_is_told_who_has_it(lock: Path, first: Session) -> None:
    word, silent, pid, owner = Session(lock).says("bob").split(" ", 3)
    assert (word, pid, owner) == ("busy", str(first.process.pid), OWNER)
    assert int(silent) < 30
    assert oct(lock.stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_the_session_is_the_end_of_the_lock(lock: Path, first: Session, number: int) -> None:
    os.kill(first.process.pid, number)
    until_free(lock, 5)
    again = Session(lock)
    assert again.says("bob") == "held"
    again.end()


def test_a_closed_connection_is_the_end_of_the_lock(lock: Path, first: Session) -> None:
    assert first.process.stdin is not None
    first.process.stdin.close()
    until_free(lock, 5)


def test_silence_is_the_end_of_the_lock_and_a_sign_of_life_is_not(lock: Path) -> None:
    """A network that was cut without a word leaves the session open on the host."""
    session = Session(lock, silence=2)
    assert session.says() == "held"
    assert session.process.stdin is not None
    for _ in range(6):
        time.sleep(0.5)
        session.process.stdin.write("\n")
        session.process.stdin.flush()
        assert not free(lock)
    until_free(lock, 5)
    assert not session.process.stdin.closed
    session.end()


def start(folder: Path, name: str, work: str, limit: int = 20) -> subprocess.Popen[str]:
    deploy = folder / f"{name}.py"
    deploy.write_text(DEPLOY.format(lock=str(folder / "lock"), limit=limit, work=work))
    return subprocess.Popen(
        [PYINFRA, "@local", str(deploy), "-y"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "pyinfra")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def at_work(folder: Path) -> None:
    end = time.monotonic() + 20
    while not (folder / "begun").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_commands_on_this_machine_itself(tmp_path: Path) -> None:
    until = f"for i in $(seq 600); do [ ! -e {tmp_path}/go ] || break; sleep 0.1; done"
    first = start(tmp_path, "first", f"touch {tmp_path}/begun; {until}; touch {tmp_path}/ended")
    at_work(tmp_path)
    refused = start(tmp_path, "refused", f"touch {tmp_path}/never", limit=0)
    second = start(tmp_path, "second", f"test -e {tmp_path}/ended", limit=60)
    said = refused.communicate(timeout=60)[0]
    assert refused.returncode != 0
    assert f"(process {first.pid} there)" in said
    assert "pyinfra @local" in said
    assert not (tmp_path / "never").exists()
    (tmp_path / "go").touch()
    said = second.communicate(timeout=60)[0]
    assert second.returncode == 0, said
    assert first.communicate(timeout=60)[0]
    assert first.returncode == 0


def test_a_killed_command_on_this_machine_itself(tmp_path: Path) -> None:
    first = start(tmp_path, "first", f"touch {tmp_path}/begun; sleep 30 </dev/null >/dev/null 2>&1")
    at_work(tmp_path)
    first.kill()
    second = start(tmp_path, "second", "true", limit=0)
    said = second.communicate(timeout=60)[0]
    assert second.returncode == 0, said
    first.communicate(timeout=60)
