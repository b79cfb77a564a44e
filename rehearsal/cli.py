"""`python -m rehearsal`: what a person types."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
import textwrap
from pathlib import Path
from types import FrameType

from rehearsal import breakage, faults, host
from rehearsal.errors import RehearsalError
from rehearsal.profiles import PROFILES
from rehearsal.state import DEFAULT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal",
        description="Boots throw-away GPU nodes (systemd-nspawn, no GPU needed) and a small internet they install from.",
        epilog="`up` prints the fleet file and the two commands to run on it. docs/rehearsal.md says what is real.",
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="up|run|ssh|inside|fault|list|down|prepare"
    )
    table = "\n".join(f"  {name:<22} {text}" for name, text in faults.ALL.items())

    for name, text in (
        ("up", "Boot nodes, wait until they answer on SSH, print the fleet file and the next commands."),
        (
            "run",
            "Everything: boot, install, install again (nothing may change), verify, and leave nothing behind.",
        ),
    ):
        one = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"faults (--fault NAME or NAME=VALUE, several times):\n{textwrap.dedent(table)}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _name(one)
        one.add_argument(
            "--card", choices=sorted(PROFILES), default="rtx-pro-6000", help="model (default %(default)s)"
        )
        one.add_argument(
            "--cards", type=_count, default=1, metavar="N", help="cards in each node (default 1)"
        )
        one.add_argument("--nodes", type=_count, default=1, metavar="N", help="nodes (default 1)")
        one.add_argument(
            "--profile",
            action="append",
            default=[],
            metavar="NAME",
            type=_profile,
            help="a node of this kind instead of --nodes (several times): a card, or any fault of a host below",
        )
        one.add_argument(
            "--fleet",
            type=Path,
            metavar="FILE",
            help="hosts and clusters as this file has them, instead of --card, --cards and --nodes (examples/fleets)",
        )
        one.add_argument(
            "--user",
            choices=("root", "ubuntu"),
            default="root",
            help="SSH user; ubuntu has sudo (default root)",
        )
        one.add_argument(
            "--fault",
            action="append",
            default=[],
            metavar="NAME",
            help="break something on purpose; see below",
        )
        one.add_argument(
            "--install-packages",
            action="store_true",
            help="install missing packages of this machine with apt",
        )
        if name == "run":
            one.add_argument("--keep", action="store_true", help="leave the nodes up at the end")

    prepare = commands.add_parser(
        "prepare", help="Only make what every rehearsal needs: packages, base tree, binaries."
    )
    prepare.add_argument(
        "--install-packages", action="store_true", help="install missing packages of this machine with apt"
    )

    ssh = commands.add_parser("ssh", help="Open a shell on a node, or run a command there.")
    _name(ssh)
    ssh.add_argument("--user", choices=("root", "ubuntu"), help="as this user instead of the fleet file's")
    ssh.add_argument("node_and_command", nargs=argparse.REMAINDER, metavar="[NODE] [COMMAND...]")

    inside = commands.add_parser(
        "inside",
        help="Run a command of this machine in the small internet, such as `python -m hami_k3s.releases lock`.",
    )
    _name(inside)
    inside.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND...")

    fault = commands.add_parser(
        "fault", help="Switch faults on a running rehearsal.", epilog=f"faults:\n{table}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _name(fault)
    fault.add_argument("--node", help="on this node only (faults of the mirror concern all)")
    fault.add_argument("action", choices=("add", "clear"))
    fault.add_argument("faults", nargs="+", metavar="FAULT", help="`clear all` clears every one")

    commands.add_parser("list", help="Show the rehearsals that are up.")
    down = commands.add_parser("down", help="End a rehearsal and leave nothing behind.")
    _name(down)
    down.add_argument("--all", action="store_true", help="end every rehearsal")
    return parser


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default=DEFAULT, help="name of the rehearsal (default %(default)s)")


def _profile(text: str) -> str:
    name = faults.name_of(text)
    known = [*PROFILES, *breakage.ALL, *breakage.MORE]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise argparse.ArgumentTypeError(f"no profile named {name}{hint} (known: {', '.join(known)})")
    return text


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and 100")
    return number


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, 1 something failed or is left, 2 wrong use, 130 interrupted."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _dispatch(options)
    except RehearsalError as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rehearsal: interrupted", file=sys.stderr)
        return 130


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _dispatch(options: argparse.Namespace) -> int:
    host.require(getattr(options, "install_packages", False))
    # Only now: these need packages of this machine and the project's own dependencies.
    from rehearsal import cleanup, lifecycle, rehearse, state

    if options.command == "prepare":
        lifecycle.prepare()
        return 0
    if options.command == "up":
        booted = rehearse.boot(options)
        rehearse.say_next(booted)
        return 0
    if options.command == "run":
        return rehearse.rehearse(options)
    if options.command == "list":
        for one in lifecycle.listing():
            broken = f", faults: {' '.join(one['faults'])}" if one.get("faults") else ""
            condition = "up" if one["alive"] else "dead (python -m rehearsal down)"
            nodes = " ".join(f"{name}:{port}" for name, port in one.get("ports", {}).items())
            print(f"{one['name']}: {condition}, nodes {nodes or 'none'}{broken}, GPU_FLEET={one['fleet']}")
        return 0
    if options.command == "down":
        chosen = state.names() if options.all else [options.name]
        left = [problem for name in chosen for problem in cleanup.down(state.State(name))]
        for problem in left:
            print(f"rehearsal: left behind: {problem}", file=sys.stderr)
        print(f"down: {' '.join(chosen) or 'nothing was up'}" + (", nothing left" if not left else ""))
        return 1 if left else 0
    if options.command == "fault":
        adding = tuple(options.faults) if options.action == "add" else ()
        clearing = tuple(options.faults) if options.action == "clear" else ()
        for node_name, now in lifecycle.change_faults(options.name, options.node, adding, clearing).items():
            print(f"{node_name}: {' '.join(now) or 'no faults'}")
        return 0
    return _inside(options) if options.command == "inside" else _ssh(options)


def _inside(options: argparse.Namespace) -> int:
    from rehearsal import inside, state

    booted = state.require(options.name)
    if not options.words:
        raise RehearsalError("inside what? Name a command, such as `python -m hami_k3s.releases lock`")
    command = inside.command(booted, options.words)
    sys.stdout.flush()
    os.execvpe(command[0], command, inside.environment(booted))
    return 1  # not reached: execvpe replaces this process or raises


def _ssh(options: argparse.Namespace) -> int:
    from rehearsal import access, state

    booted = state.require(options.name)
    nodes = [one["name"] for one in booted.read()["nodes"]]
    rest = list(options.node_and_command)
    node = rest.pop(0) if rest and rest[0] in nodes else nodes[0]
    command = [
        *access.ssh_command(booted, node, options.user),
        *(["-t"] if not rest and sys.stdin.isatty() else []),
        *rest,
    ]
    sys.stdout.flush()
    os.execvp(command[0], command)
    return 1  # not reached: execvp replaces this process or raises
