"""A host for operations and waits: fact values and command answers are given, what is done is collected."""

from __future__ import annotations

import re
import shlex
from base64 import b64decode
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import click
from pyinfra.api import Config, FactBase, FileUploadCommand, FunctionCommand, StringCommand
from pyinfra.api.arguments import all_argument_meta
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_host, ctx_state

from hami_k3s.facts.shared import Half
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


class Data(dict[str, Any]):
    """pyinfra's host data: by attribute, by `get`, and as a whole."""

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        raise AttributeError(key)

    def dict(self) -> dict[str, Any]:
        return {**self}


class Inventory:
    """The hosts of a run, in their order."""

    def __init__(self, hosts: list[FakeHost]) -> None:
        self.hosts = {host.name: host for host in hosts}

    def __iter__(self) -> Iterator[FakeHost]:
        return iter(self.hosts.values())

    def get_host(self, name: str) -> FakeHost:
        return self.hosts[name]


class Run:
    """pyinfra's state of a run: all its hosts go on until a test takes one out."""

    def __init__(self, *hosts: FakeHost, stage: StateStage = StateStage.Prepare) -> None:
        self.inventory = Inventory(list(hosts))
        self.active_hosts, self.failed_hosts = set(hosts), set[FakeHost]()
        self.ops: dict[FakeHost, dict[str, Any]] = {host: {} for host in hosts}
        self.current_stage = stage
        self.config = Config()
        self.initialised = False
        for host in hosts:
            host.state = self

    def fail(self, host: FakeHost) -> None:
        self.active_hosts.discard(host)
        self.failed_hosts.add(host)


class FakeHost:
    connector = None
    in_op = True
    current_deploy_kwargs = None
    state: Run

    def __init__(
        self,
        facts: dict[type[FactBase[Any]], Any] | None = None,
        answer: Callable[[str, str | None], tuple[bool, str]] = lambda script, stdin: (True, ""),
        name: str = "gpu-1",
        data: dict[str, Any] | None = None,
        away: str = "",
    ) -> None:
        self.name = name
        self.data = Data(data or {})
        self.facts = facts or {}
        self.answer = answer
        self.away = away  # why it cannot be reached
        self.connected = not away
        self.noop_description: str | None = None
        self.said: list[str] = []
        self.ran: list[str] = []
        self.inputs: list[str] = []
        self.arguments: list[dict[str, Any]] = []
        self.current_op_global_arguments: dict[str, Any] | None = {"_sudo": True, "_if": None}
        Run(self)

    def connect(self, reason: str, show_errors: bool, raise_exceptions: bool) -> None:
        if self.away:
            raise ConnectError(self.away)
        self.connected = True

    def get_fact(self, fact: type[FactBase[Any]], **arguments: Any) -> Any:
        if fact is Together:
            return [self.get_fact(one, **given) for one, given in arguments["parts"]]
        if fact is Half:  # of an agent: its own shell answers
            script = StringCommand("sh", "-c", shlex.quote(arguments["script"]))
            return Half().process(self.run_shell_command(script)[1].stdout_lines)
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
        self.inputs.append(arguments.get("_stdin") or "")
        ok, text = self.answer(script, arguments.get("_stdin"))
        return ok, Output(text.splitlines()) if ok else Output([], text.splitlines())

    def scripts(self) -> list[str]:
        """What `remote.run` was given, without the limit around it."""
        return [shlex.split(script)[-1] for script in self.ran]

    def heard(self) -> str:
        """All lines that the person at the terminal saw."""
        return "\n".join(self.said)


def written(host: FakeHost) -> dict[str, tuple[str, str]]:
    """Files that `files.write` has sent to this host: path -> (text, mode)."""
    one = re.compile(r"base64 -d >(\S+)\.hami-k3s-new <<'END'\n(.*)\nEND\nchmod (\S+) ")
    found = [match.groups() for script in host.inputs for match in one.finditer(script)]
    return {path: (b64decode(text).decode(), mode) for path, text, mode in found}


def by_word(answers: dict[str, str | None]) -> Callable[[str, str | None], tuple[bool, str]]:
    """A shell that answers by the first of these words in the script; it fails for None, and says nothing to others."""

    def answer(script: str, stdin: str | None) -> tuple[bool, str]:
        found = next((text for word, text in answers.items() if word in script), "")
        return (True, found) if found is not None else (False, "refused")

    return answer


def server(name: str, **more: Any) -> FakeHost:
    """A server of the cluster lab."""
    data = {"k3s_cluster": "lab", "k3s_role": "server", **more.pop("data", {})}
    return FakeHost(name=name, data=data, **more)


def agent(name: str, **more: Any) -> FakeHost:
    """An agent of the cluster lab."""
    return server(name, data={"k3s_role": "agent", **more.pop("data", {})}, **more)


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
    return perform(FakeHost(facts), operation, **arguments)


def perform(host: FakeHost, operation: Any, **arguments: Any) -> tuple[list[str | Call | Upload], str | None]:
    """`operate` on this host."""
    with ctx_state.use(host.state), ctx_host.use(host):
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
