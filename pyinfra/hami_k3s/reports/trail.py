"""What this run did: which operation on which host, when, with what result, and why it failed.

`trail.jsonl` is written line by line while the run goes on, so that a killed one has left it too; `trail.md` at its end.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.state import BaseStateCallback, StateStage
from pyinfra.context import ctx_state

from hami_k3s import command_line, gate, waits
from hami_k3s.reports import trail_page
from hami_k3s.reports.folder import replace, run_directory
from hami_k3s.reports.plain import plain

MOST_LINES = 5  # of the reasons of one failure


@dataclass
class Step:
    """One operation on one host. `result`: changed, no change, failed, interrupted; "" while it is at work."""

    host: str
    operation: str
    started: datetime
    told: int  # how many complaints the host had before
    result: str = ""
    seconds: float = 0.0
    why: list[str] = field(default_factory=list)


class Trail(BaseStateCallback):
    """Follows one run. What cannot be written is said once; the run goes on."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.steps: list[Step] = []
        self.silent = False  # somebody else says at the end what did not hold
        self._open: dict[tuple[Host, str], Step] = {}
        self._file: Path | None = None
        self._broken = False

    # Called by pyinfra, in the greenlet of the host.

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        self._settle(state)
        if op_hash not in state.ops[host]:
            return
        name = " / ".join(sorted(state.get_op_meta(op_hash).names))
        step = Step(host.name, name, datetime.now(UTC), len(waits.TOLD[host.name]))
        self.steps.append(step)
        self._open[host, op_hash] = step
        self._line({"event": "begins", "host": host.name, "operation": name}, state)

    def operation_host_success(self, state: State, host: Host, op_hash: str, retry_count: int = 0) -> None:  # type: ignore[override]
        self._ended(host, op_hash)

    def operation_host_error(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        self._ended(host, op_hash)

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        self._settle(state)

    def _ended(self, host: Host, op_hash: str) -> None:
        if step := self._open.get((host, op_hash)):
            step.seconds = (datetime.now(UTC) - step.started).total_seconds()

    def _settle(self, state: State) -> None:
        """pyinfra says what an operation did only after its callbacks: look now."""
        for (host, op_hash), step in list(self._open.items()):
            meta = state.ops[host][op_hash].operation_meta
            if meta.is_complete():
                del self._open[host, op_hash]
                bad = meta.did_error()
                self._result(step, "failed" if bad else "changed" if meta.did_change() else "no change")

    def _result(self, step: Step, result: str) -> None:
        step.result = result
        step.seconds = step.seconds or (datetime.now(UTC) - step.started).total_seconds()
        if result in ("failed", "interrupted"):
            step.why = waits.TOLD[step.host][step.told :][:MOST_LINES]
        entry = {"event": "ended", "host": step.host, "operation": step.operation, "result": result}
        self._line({**entry, "seconds": round(step.seconds, 2), "why": step.why})

    def close(self) -> None:
        """The end of the process: what is at work now was interrupted; the page, and what to do about hosts that failed."""
        state: Any = ctx_state.get() if ctx_state.isset() else None  # type: ignore[no-untyped-call]
        if state is None or not state.initialised:
            return
        ran = state.current_stage >= StateStage.Execute and self in state.callback_handlers
        if not ran and (state.activated_hosts or not state.failed_hosts):
            return  # a dry run, a question answered with no, wrong settings, a command that is not ours
        self._settle(state)
        for step in self._open.values():
            self._result(step, "interrupted")
        hosts = self._hosts(state)
        bad = [name for name, (word, _) in hosts.items() if word != "ok"]
        interrupted = any(word == "interrupted" for word, _ in hosts.values())
        result = "interrupted" if interrupted else "failed" if bad else "ok"
        ends = {
            name: {"result": word, "why": self.reason(name) if word != "ok" else ""}
            for name, (word, _) in hosts.items()
        }
        self._line({"event": "run ended", "result": result, "hosts": ends}, state)
        again = command_line.again(bad) if bad else ""
        if len(hosts) > 1 and bad and not self.silent:
            _say(trail_page.summary({name: (*hosts[name], self.reason(name)) for name in hosts}, again))
        self._page(result, hosts, again)

    def _hosts(self, state: Any) -> dict[str, tuple[str, str]]:
        """Host of this run -> (ok, failed, interrupted or unreachable; the operation where it stopped)."""
        found = {}
        for host in state.inventory:
            if not state.is_host_in_limit(host):
                continue
            last = next((step.operation for step in reversed(self.steps) if step.host == host.name), "")
            if host not in state.activated_hosts:
                found[host.name] = ("unreachable", "")
            elif host in state.failed_hosts:
                found[host.name] = ("failed", last)
            elif state.current_stage == StateStage.Execute:
                found[host.name] = ("interrupted", last)
            else:
                found[host.name] = ("ok", "")
        return found

    def reason(self, host: str) -> str:
        """The first line that says why this host did not come to its end; a heading with the line under it."""
        said = next((step.why for step in reversed(self.steps) if step.host == host and step.why), None)
        said = said or waits.TOLD[host] or ["the reason is in the output above"]
        return " ".join(said[:2]) if said[0].endswith(":") else said[0]

    def _page(self, result: str, hosts: dict[str, tuple[str, str]], again: str) -> None:
        if self._file is None or self._broken:
            return
        page = self._file.with_name("trail.md")
        reasons = {name: self.reason(name) for name, (word, _) in hosts.items() if word != "ok"}
        try:
            replace(page, trail_page.markdown(result, _about(), hosts, reasons, self.steps, again))
            _say(f"trail: {page}")
        except OSError as error:
            self._cannot(error)

    def _line(self, content: dict[str, Any], state: Any = None) -> None:
        """The first line of all needs the state."""
        if self._broken or self.folder is None:
            return
        entries = [content]
        try:
            if self._file is None:
                self._file = run_directory(self.folder) / "trail.jsonl"
                names = [host.name for host in state.inventory if state.is_host_in_limit(host)]
                entries.insert(0, {"event": "run begins", **_about(), "hosts": names})
            self._file.parent.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            with self._file.open("a", encoding="ascii") as file:
                file.writelines(json.dumps({"at": stamp, **entry}) + "\n" for entry in entries)
        except OSError as error:
            self._cannot(error)

    def _cannot(self, error: OSError) -> None:
        self._broken = True
        _say(f"Warning: the trail of this run cannot be written: {error}; set report_folder")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@cache
def _about() -> dict[str, Any]:
    """Who ran what, from where, with which versions."""
    return {
        "command": command_line.shown(),
        "operator": command_line.operator(),
        "process": os.getpid(),
        "working_directory": os.getcwd(),
        "started": command_line.STARTED.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "versions": {
            **{name: _version(name) for name in ("pyinfra-hami-k3s", "pyinfra")},
            "python": sys.version.split()[0],
        },
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed as a package"


class _Heard(logging.Handler):
    """What pyinfra itself says of a host's failure: `[gpu-1] Could not connect ...`."""

    def emit(self, record: logging.LogRecord) -> None:
        match = re.match(r"\[([^ ]+)\] +(.+)", plain(str(record.getMessage())))
        if match and not re.match(r"Error(: executed \d+ commands.*)?$", match[2]):
            waits.TOLD[match[1]].append(match[2])


TRAIL = Trail()


def expect(folder: str) -> None:
    """A run begins whose trail belongs under `folder`. Later calls change nothing."""
    TRAIL.folder = TRAIL.folder or folder
    _listen()


@cache
def _listen() -> None:
    logger.addHandler(_Heard(logging.WARNING))
    gate.at_last(TRAIL.close)


def follow(state: State, folder: str) -> None:
    """Keep a trail of this run's operations. Later calls change nothing."""
    expect(folder)
    if TRAIL not in state.callback_handlers:
        state.add_callback_handler(TRAIL)  # type: ignore[no-untyped-call]
