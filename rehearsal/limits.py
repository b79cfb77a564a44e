"""A limit of the kernel that is made for one system, not for a dozen on one machine: raised while a rehearsal is up.

Every node's systemd and its services hold about a dozen inotify instances, and all nodes count as one user. Past the limit
a node dies while it boots.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from rehearsal.state import names, root

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
WANTED = 8192


def _before() -> Path:
    """Where the machine's own value is kept."""
    folder = root()
    return folder.with_name(f"{folder.name}.inotify")


def lift() -> None:
    """Raise it. Call when the rehearsal's folder is there."""
    with contextlib.suppress(OSError, ValueError):  # a machine that forbids it may still have room
        if (own := int(LIMIT.read_text())) < WANTED:
            _before().write_text(str(own))
            LIMIT.write_text(str(WANTED))


def restore() -> None:
    """Put the machine's own value back when no rehearsal is left."""
    with contextlib.suppress(OSError):
        if not names() and _before().exists():
            LIMIT.write_text(_before().read_text())
            _before().unlink()
