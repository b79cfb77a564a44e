"""Files of a bundle, sent to a host over SSH: only those it lacks, each under its name only after its sum was right there."""

from __future__ import annotations

import getpass
import posixpath
import shlex
import time
from pathlib import Path
from typing import Any

from pyinfra.api import Host, State

from hami_k3s.releases.bundle import Bundle, BundleError, inside
from hami_k3s.releases.origin import STORE
from hami_k3s.remote import run
from hami_k3s.waits import complain

INCOMING = f"{STORE}/.incoming"


def send(state: State, host: Host, bundle: Bundle, names: list[str]) -> bool:
    """Send the files that the host lacks. True when all are there with the manifest's sums."""
    unknown = [name for name in names if name not in bundle.files]
    if unknown or not names:
        what = ", ".join(unknown) or "anything for this machine's architecture"
        complain(
            host, f"the bundle {bundle.folder} does not have {what}; make it with these versions and --arch"
        )
        return False
    lacking = _lacking(host, bundle, names)
    return lacking is not None and all(_send(host, bundle, name) for name in lacking)


def _lacking(host: Host, bundle: Bundle, names: list[str]) -> list[str] | None:
    """Those whose content is not on the host; None, with the reason shown, when it does not answer."""
    lines = "".join(f"{bundle.files[name].sha256}  {name}\n" for name in names)
    script = f"mkdir -p {STORE} && cd {STORE} && sha256sum -c 2>/dev/null || true"
    told = run(host, script, stdin=lines, timeout=600)
    if not told.ok:
        complain(host, f"the host does not say what it has: {told.stderr or told.stdout}")
        return None
    there = {line.removesuffix(": OK") for line in told.stdout.splitlines() if line.endswith(": OK")}
    return [name for name in names if name not in there]


def _send(host: Host, bundle: Bundle, name: str) -> bool:
    entry = bundle.files[name]
    try:
        file = inside(bundle.folder, name)
    except BundleError as error:
        complain(host, str(error))
        return False
    target, part = f"{STORE}/{name}", f"{INCOMING}/{entry.sha256}"
    # The SSH user writes there without sudo: one copy on the disk that the file belongs on, not one in /tmp first.
    owner = host.data.get("ssh_user") or getpass.getuser()
    opened = run(
        host,
        f"need={entry.size // 1024}; have=$(df -Pk {STORE} | awk 'NR == 2 {{ print $4 }}');"
        f' [ "$have" -gt "$need" ] || {{ echo "{STORE} has $have KiB free, $need are needed" >&2; exit 1; }};'
        f" install -d -m 700 -o {shlex.quote(str(owner))} {INCOMING} && rm -f {part}",
    )
    if not opened.ok:
        complain(host, f"{name}: {opened.stderr or opened.stdout}")
        return False
    begun = time.monotonic()
    if entry.size > 1 << 24:
        host.log(f"    sending {name}, {entry.size >> 20} MiB")
    if reason := _upload(host, file, part):
        complain(host, f"{name} could not be sent: {reason}. Run the same command again")
        return False
    placed = run(
        host,
        f"chown root:root {part} && chmod 644 {part} && found=$(sha256sum <{part} | cut -c 1-64) && "
        f"if [ $found != {entry.sha256} ]; then rm -f {part}; echo $found >&2; exit 1; fi; "
        f"mkdir -p {shlex.quote(posixpath.dirname(target))} && sync {part} && mv -f {part} {shlex.quote(target)}",
        timeout=600,
    )
    if not placed.ok:
        complain(host, f"sha256 of {file} is {placed.stderr or placed.stdout}")
        complain(
            host, f"{bundle.folder / 'manifest.yaml'} says {entry.sha256}: refused. Make the bundle again"
        )
        return False
    if entry.size > 1 << 24:
        host.log(f"    sent {name} in {time.monotonic() - begun:.0f} s")
    return True


def _upload(host: Host, file: Path, part: str) -> str:
    """The reason why it failed, "" when it did not. Never reads the file into memory."""
    if getattr(host.connector, "handles_execution", False) and not hasattr(host.connector, "client"):
        done = run(host, f"cp {shlex.quote(str(file.resolve()))} {part}", timeout=3600)  # @local
        return "" if done.ok else done.stderr or done.stdout or "cp failed"
    nothing: dict[str, Any] = {}
    try:
        return "" if host.put_file(str(file), part, **nothing) else "the upload failed"
    except Exception as error:  # paramiko, socket and SFTP errors have no common base
        return f"{type(error).__name__}: {error}"
