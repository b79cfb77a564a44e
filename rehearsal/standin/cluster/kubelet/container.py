"""One container: a shim process for images whose programs run for real, a task of this process for those that are played.

Both keep their state in one folder under /run, so that a restarted k3s finds them again.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import clock, paths

Object = dict[str, Any]


def folder_of(container_id: str) -> Path:
    return paths.on_node(f"{paths.CONTAINERS}/{container_id}")


def log_path(pod: Object, container: str, restarts: int) -> Path:
    meta = pod["metadata"]
    return paths.on_node(
        f"{paths.POD_LOGS}/{meta['namespace']}_{meta['name']}_{meta['uid']}/{container}/{restarts}.log"
    )


@dataclass
class Exit:
    code: int
    finished: str
    error: str = ""


class Real:
    """A process held by a shim."""

    def __init__(self, container_id: str) -> None:
        self.id = container_id
        self.folder = folder_of(container_id)
        self.shim: subprocess.Popen[bytes] | None = None

    def start(self, shim: Path, config: Object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(config))
        # Shown in the process list as the real one is: k3s-killall.sh finds shims by the beginning of their command.
        command = [str(shim), str(shim), "-namespace", "k8s.io", "-id", self.id, "-address", str(self.folder)]
        quiet = subprocess.DEVNULL
        with (self.folder / "shim.log").open("wb") as errors:
            self.shim = subprocess.Popen(
                command,
                executable="/usr/bin/python3",
                stdin=quiet,
                stdout=quiet,
                stderr=errors,
                start_new_session=True,
            )
        (self.folder / "shim.pid").write_text(str(self.shim.pid))

    @property
    def pid(self) -> int | None:
        try:
            return int((self.folder / "pid").read_text())
        except (OSError, ValueError):
            return None

    def config(self) -> Object:
        return json.loads((self.folder / "config.json").read_text())

    def exit(self) -> Exit | None:
        gone = self.shim is not None and self.shim.poll() is not None
        try:
            found = json.loads((self.folder / "exit.json").read_text())
            return Exit(found["code"], found["finished"], found.get("error", ""))
        except (OSError, ValueError):
            pass
        if self.shim is None:
            gone = not self._shim_lives()
        if gone or not self.folder.exists():
            return Exit(137, clock.stamp(), "")  # killed from outside together with its shim
        return None

    def _shim_pid(self) -> int | None:
        try:
            return int((self.folder / "shim.pid").read_text())
        except (OSError, ValueError):
            return None

    def _shim_lives(self) -> bool:
        pid = self._shim_pid()
        try:
            return pid is not None and self.id in Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        except OSError:
            return False

    async def wait_started(self) -> Exit | None:
        while self.pid is None:
            if found := self.exit():
                return found
            await asyncio.sleep(0.03)
        return None

    async def wait(self) -> Exit:
        while True:
            if found := self.exit():
                return found
            await asyncio.sleep(0.1)

    async def stop(self, grace: float) -> None:
        with contextlib.suppress(
            asyncio.TimeoutError
        ):  # one that is just starting is let to its process first
            await asyncio.wait_for(self.wait_started(), 3)
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
            pid = self.pid
            if pid is None or self.exit():
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.wait(), patience)
        self.kill()

    def kill(self) -> None:
        """Whatever is left of it, at once."""
        for pid in (
            self.pid if self._shim_lives() else None,
            self._shim_pid() if self._shim_lives() else None,
        ):
            with contextlib.suppress(ProcessLookupError):
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Played:
    """A program that this process plays; it returns its exit code, or runs until it is stopped."""

    def __init__(self, container_id: str, log: Path) -> None:
        self.id, self.path = container_id, log
        self.folder = folder_of(container_id)
        self.task: asyncio.Task[int] | None = None

    def start(self, program: Callable[["Played"], Awaitable[int]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "played").write_text("")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.task = asyncio.ensure_future(program(self))

    @property
    def was_running(self) -> bool:
        return (self.folder / "played").exists()

    def log(self, text: str) -> None:
        now = clock.utcnow().strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        with self.path.open("a") as stream:
            stream.write("".join(f"{now} stderr F {line}\n" for line in text.split("\n")))

    def recall(self) -> Object:
        """What the program keeps in its memory; it survives a restart of k3s as the real process would."""
        try:
            return json.loads((self.folder / "memory.json").read_text())
        except (OSError, ValueError):
            return {}

    def remember(self, **values: Any) -> None:
        (self.folder / "memory.json").write_text(json.dumps({**self.recall(), **values}))

    async def wait(self) -> Exit:
        assert self.task is not None
        while not self.task.done() and self.folder.exists():
            await asyncio.wait([self.task], timeout=0.5)
        if not self.task.done():
            self.task.cancel()
            return Exit(137, clock.stamp())
        if self.task.cancelled():
            return Exit(143, clock.stamp())
        return Exit(self.task.result(), clock.stamp())

    async def stop(self, _grace: float) -> None:
        if self.task and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task], timeout=2)
        (self.folder / "played").unlink(missing_ok=True)

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
