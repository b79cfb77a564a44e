"""A stand-in for curl that answers as the Kubernetes API would, from paths and objects that a test gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyinfra.api import FactBase

from tests.unit.facts.host_tools import Bin

CURL = """folder=$(dirname "$0")/api
while [ $# -gt 0 ]; do
    case "$1" in
    -o) to=$2; shift ;;
    -d) printf %s "$2" >"$folder/posted"; shift ;;
    --cert|--cacert|--key|--max-time|-w|-H) shift ;;
    -s) ;;
    *) found=
       while IFS='	' read -r path file; do
           [ "$path" != "$1" ] || { cat "$folder/$file" >"$to"; found=1; }
       done <"$folder/paths"
       if [ -n "$found" ]; then echo 200; else printf '{"kind":"Status","message":"not found"}' >"$to"; echo 404; fi ;;
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
