"""A stand-in for curl that answers as the Kubernetes API would, from paths and objects that a test gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyinfra.api import FactBase

from tests.unit.facts.host_tools import Bin

CURL = r"""folder=$(dirname "$0")/api
while [ $# -gt 0 ]; do
    case "$1" in
    -w) write=$2; shift ;;
    -d) printf %s "$2" >"$folder/posted"; shift ;;
    --cert|--cacert|--key|--max-time|-H) shift ;;
    -s|--next) ;;
    *) found=
       while IFS='	' read -r path file; do
           [ "$path" != "$1" ] || { cat "$folder/$file"; found=200; }
       done <"$folder/paths"
       [ -n "$found" ] || { printf '{"kind":"Status","message":"not found"}'; found=404; }
       printf %s "$write" | sed "s/%{http_code}/$found/; s/%{exitcode}/0/" ;;
    esac
    shift
done"""


class Api:
    """`answers`: path with its query -> object."""

    def __init__(self, host: Bin) -> None:
        self.host = host
        self.answers: dict[str, Any] = {}
        host.put("curl", CURL)
        self.folder = Path(host.folder) / "api"
        self.folder.mkdir()

    def read(self, fact: type[FactBase[Any]], shell: str = "sh", **arguments: Any) -> Any:
        """The fact's value."""
        lines = []
        for number, (path, answer) in enumerate(self.answers.items()):
            (self.folder / str(number)).write_text(answer if isinstance(answer, str) else json.dumps(answer))
            lines.append(f"{path}\t{number}\n")
        (self.folder / "paths").write_text("".join(lines))
        return self.host.read(fact, shell, **arguments)

    def posted(self) -> Any:
        """The last object that was sent."""
        return json.loads((self.folder / "posted").read_text())
