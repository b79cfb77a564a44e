"""A host's files as a listing that can be compared: what a converge and a reset, or a look at the host, leave behind."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

# Not looked at: other file systems, and what is gone at the next boot anyway.
NOT = ("/proc", "/sys", "/dev", "/run", "/tmp")
# Paths (shell patterns) that may differ after converge and reset, and why.
EXCEPTIONS = {
    "/var/lib/apt/*": "apt's own state",
    "/var/lib/dpkg/*": "dpkg's own state",
    "/var/cache/apt/*": "apt's own caches",
    "/var/log/*": "logs",
    "/var/cache/ldconfig/*": "a cache of ldconfig's, with inodes and times",
    "/var/lib/systemd/*": "systemd's own state (timers, random seed)",
}
_LIST = r"""cd /; find . -xdev \( {not_} \) -prune -o -printf '%p|%y %m %U:%G|%l\n' | sed 's/^.//' >/tmp/.tree
find . -xdev \( {not_} \) -prune -o -type f -print0 | xargs -0 sha256sum -z | tr '\0' '\n' >/tmp/.sums
cat /tmp/.tree; echo '== sums'; cat /tmp/.sums; rm /tmp/.tree /tmp/.sums"""


def listing(node: Any) -> dict[str, str]:
    """Path -> type, mode, owner, link's target, and sha256 of a plain file."""
    pruned = " -o ".join(f"-path .{path}" for path in NOT)
    said = node.run(_LIST.format(not_=pruned))
    assert said.ok, said.stderr
    files, _, sums = said.stdout.partition("== sums\n")
    found = {}
    for line in files.splitlines():
        path, kind, target = line.rsplit("|", 2)
        found[path or "/"] = f"{kind} {target}".rstrip()
    for line in sums.splitlines():
        digest, _, path = line.partition("  .")
        found[path] += f" {digest}"
    return found


# While k3s runs.
ALIVE = {"/var/lib/rancher/k3s/server/db/*": "leases and events"}


def differences(
    before: dict[str, str], after: dict[str, str], exceptions: dict[str, str] = EXCEPTIONS
) -> tuple[list[str], dict[str, int]]:
    """(`+`, `-` or `~` and the path, for each that differs; exception -> how many it covers)."""
    differ, excused = [], dict.fromkeys(exceptions, 0)
    for path in sorted({*before, *after}):
        if before.get(path) == after.get(path):
            continue
        if reason := next((one for one in exceptions if fnmatchcase(path, one)), None):
            excused[reason] += 1
        else:
            sign = "+" if path not in before else "-" if path not in after else "~"
            differ.append(f"{sign} {path}: {before.get(path)} -> {after.get(path)}")
    return differ, excused


def report(before: dict[str, str], after: dict[str, str]) -> tuple[list[str], str]:
    """What differs, and the comparison on one line."""
    differ, excused = differences(before, after)
    used = ", ".join(f"{path} ({count}: {EXCEPTIONS[path]})" for path, count in excused.items() if count)
    return differ, f"tree: {len(before)} paths, {len(differ)} differ, exceptions: {used or 'none'}"
