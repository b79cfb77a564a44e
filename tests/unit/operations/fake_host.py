"""A host for operations and waits: fact values and command answers are given, what is done is collected."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from inspect import signature
from types import SimpleNamespace
from typing import Any

import click
from pyinfra.api import FactBase, FileUploadCommand, FunctionCommand, StringCommand
from pyinfra.api.arguments import all_argument_meta
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_host, ctx_state
from pyinfra_testing.util import FakeState

from hami_k3s.facts.together import Together


@dataclass
class Output:
    stdout_lines: list[str] = field(default_factory=list)
    stderr_lines: list[str] = field(default_factory=list)


@dataclass
class Then:
    """Fact values that follow one another; the last one stays."""

    values: list[Any]

    def next(self) -> Any:
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


class FakeHost:
    name = "gpu-1"
    connector = None
    state = SimpleNamespace(current_stage=StateStage.Prepare)
    in_op = True

    def __init__(
        self,
        facts: dict[type[FactBase[Any]], Any] | None = None,
        answer: Callable[[str, str | None], tuple[bool, str]] = lambda script, stdin: (True, ""),
    ) -> None:
        self.facts = facts or {}
        self.answer = answer
        self.noop_description: str | None = None
        self.said: list[str] = []
        self.ran: list[str] = []
        self.arguments: list[dict[str, Any]] = []
        self.current_op_global_arguments = {"_sudo": True, "_if": None}

    def get_fact(self, fact: type[FactBase[Any]], **arguments: Any) -> Any:
        if fact is Together:
            return [self.get_fact(one, **given) for one, given in arguments["parts"]]
        own = {key: value for key, value in arguments.items() if key not in all_argument_meta}
        signature(fact().command).bind(**own)  # a wrong argument is a bug in the operation
        if fact not in self.facts and fact.__module__.startswith("pyinfra."):
            return None  # pyinfra's own file facts: nothing is there
        value = self.facts[fact]
        return value.next() if isinstance(value, Then) else value

    def noop(self, description: str) -> None:
        self.noop_description = description

    def log(self, text: str, *rest: Any) -> None:
        self.said.append(text.strip())

    def log_styled(self, text: str, **style: Any) -> None:
        click.style("", **style)
        self.said.append(text.strip())

    def get_temp_filename(self, *arguments: Any, **more: Any) -> str:
        return "/tmp/upload"

    def run_shell_command(self, command: StringCommand, **arguments: Any) -> tuple[bool, Output]:
        script = command.get_raw_value()
        self.ran.append(script)
        self.arguments.append(arguments)
        ok, text = self.answer(script, arguments.get("_stdin"))
        return ok, Output(text.splitlines()) if ok else Output([], text.splitlines())

    def heard(self) -> str:
        """All lines that the person at the terminal saw."""
        return "\n".join(self.said)


@dataclass
class Call:
    """A FunctionCommand: the function's name and arguments."""

    function: str
    arguments: tuple[Any, ...]
    command: FunctionCommand

    @property
    def script(self) -> str:
        """The script of a step that runs as a unit of its own."""
        assert self.function == "work"
        return str(self.arguments[2])

    def run(self, host: FakeHost) -> Any:
        """Do it, on this host."""
        return self.command.function(None, host, *self.arguments, **self.command.kwargs)


@dataclass
class Upload:
    text: str
    path: str


def operate(
    operation: Any, facts: dict[type[FactBase[Any]], Any], **arguments: Any
) -> tuple[list[str | Call | Upload], str | None]:
    """(what the operation would do, why nothing was done)."""
    host = FakeHost(facts)
    with ctx_state.use(FakeState()), ctx_host.use(host):
        body: Generator[PyinfraCommand] = operation._inner(**arguments)
        done = [_plain(command) for command in body]
    return done, host.noop_description


def _plain(command: PyinfraCommand) -> str | Call | Upload:
    if isinstance(command, FunctionCommand):
        return Call(command.function.__name__, tuple(command.args), command)
    if isinstance(command, FileUploadCommand):
        command.src.seek(0)
        text = command.src.read()
        return Upload(text if isinstance(text, str) else text.decode(), str(command.dest))
    assert isinstance(command, StringCommand)
    return command.get_raw_value()
