"""Log lines in k3s' own shape, on stderr (systemd puts them in the journal)."""

import datetime
import json
import sys


def _line(level: str, message: str) -> None:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(f'time="{now}" level={level} msg={json.dumps(message)}', file=sys.stderr, flush=True)


def info(message: str) -> None:
    _line("info", message)


def warning(message: str) -> None:
    _line("warning", message)


def error(message: str) -> None:
    _line("error", message)


def fatal(message: str) -> None:
    _line("fatal", message)
