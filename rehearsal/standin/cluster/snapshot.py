"""`k3s etcd-snapshot`: asks the running server; without embedded etcd there is nothing to take."""

import http.client
import json
import os
import shutil
import socket
import ssl
import sys
import time

from . import paths

FOLDER = paths.DATA + "/server/db/snapshots"
USAGE = """k3s etcd-snapshot - Manage etcd snapshots

COMMANDS:
   save   Trigger an immediate etcd snapshot
   ls     List snapshots
   prune  Remove snapshots that match the name prefix that exceed the configured retention count"""


def main(arguments: list[str]) -> int:
    command, options = arguments[0] if arguments else "", _options(arguments[1:])
    if command not in ("save", "ls", "list", "prune") or options is None:
        print(USAGE, file=sys.stderr)
        return 1
    if os.geteuid() != 0:
        return _fatal("Error: etcd-snapshot must be run as root")
    status, answer = _ask("/readyz")
    if status != 200:
        return _fatal(f"Error: see server log for details: {answer}")
    if not paths.on_node(f"{paths.ETCD}/name").exists():
        return _fatal(
            'Error: see server log for details: https://127.0.0.1:6443/db/snapshot: 400: {"message":"etcd datastore disabled"}'
        )
    folder, prefix = (
        paths.on_node(FOLDER),
        f"{options.get('name', 'on-demand')}-{socket.gethostname().lower()}",
    )
    found = sorted(folder.glob(f"{prefix}-*")) if folder.exists() else []
    if command == "save":
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = folder / f"{prefix}-{int(time.time())}"
        shutil.copyfile(paths.on_node(paths.DB), target)
        target.chmod(0o600)
        print(
            f'time="{time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}" level=info msg="Snapshot {target.name} saved."'
        )
    elif command == "prune":
        for old in found[: -int(options.get("snapshot-retention", "5"))]:
            old.unlink()
            print(f"Snapshot {old.name} deleted.")
    else:
        print("\n".join(["Name Location", *(f"{one.name} file://{one}" for one in found)]))
    return 0


def _options(words: list[str]) -> dict[str, str] | None:
    """--name X or --name=X; None for what k3s does not know."""
    found = {}
    words = list(words)
    while words:
        key, given, value = words.pop(0).partition("=")
        if key not in ("--name", "--snapshot-retention", "--etcd-snapshot-name"):
            return None
        if not given and not words:
            return None
        found[key.removeprefix("--").removeprefix("etcd-snapshot-")] = value if given else words.pop(0)
    return found


def _fatal(text: str) -> int:
    print(f"FATA[0000] {json.dumps(text)[1:-1]}", file=sys.stderr)
    return 1


def _ask(path: str) -> tuple[int, str]:
    folder = paths.on_node(paths.TLS)
    try:
        context = ssl.create_default_context(cafile=folder / "server-ca.crt")
        context.load_cert_chain(folder / "client-admin.crt", folder / "client-admin.key")
        connection = http.client.HTTPSConnection("127.0.0.1", paths.API_PORT, timeout=10, context=context)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except OSError as refused:
        return 0, str(refused)
