"""`python -m hami_k3s.releases lock|check|bundle`: what is installed, said by sum, and put in one folder."""

from __future__ import annotations

import argparse
import difflib
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hami_k3s.releases import lockfile, resolve
from hami_k3s.releases.compare import check, incompatible
from hami_k3s.releases.fetch import Fetcher, FetchError
from hami_k3s.releases.lockfile import Lock, LockError
from hami_k3s.releases.origin import with_mirror
from hami_k3s.releases.pack import Packer
from hami_k3s.releases.resolve import Upstream
from hami_k3s.settings import Settings, is_ours

ARCHITECTURES = ("amd64", "arm64")
OPTIONS = {
    "k3s": "k3s_version",
    "helm": "helm_version",
    "toolkit": "toolkit_version",
    "hami": "hami_chart_version",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hami_k3s.releases",
        description="Sources, proxies and private_ca are those of the `settings:` in GPU_FLEET or fleet.yaml.",
        epilog=f"The lock is {lockfile.NAME} of this folder, or the file that GPU_LOCK names.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    lock = commands.add_parser("lock", help="look up versions, sums and digests, and write the lock")
    lock.add_argument("--k3s", metavar="RELEASE", help="a release, or a channel: stable, v1.36")
    lock.add_argument("--helm", metavar="VERSION", help="a release like v4.2.3")
    lock.add_argument("--toolkit", metavar="VERSION", help="like 1.19.1")
    lock.add_argument("--hami", metavar="VERSION", help="of the chart, like 2.9.0")
    commands.add_parser("check", help="say what is outdated, incompatible, or no longer matches its sum")
    bundle = commands.add_parser(
        "bundle", help="everything the lock names in one folder, for hosts without internet"
    )
    bundle.add_argument("folder", type=Path, metavar="DIR")
    for one in (lock, bundle):
        one.add_argument("--arch", type=_architectures, help="amd64, arm64, or both with a comma")
        one.add_argument("--no-images", action="store_true", help="leave container images out")
    return parser


def _architectures(text: str) -> list[str]:
    found = [one.strip() for one in text.split(",")]
    if bad := [one for one in found if one not in ARCHITECTURES]:
        raise argparse.ArgumentTypeError(f"{bad[0]!r}; known: {', '.join(ARCHITECTURES)}")
    return found


def settings(changes: dict[str, str]) -> Settings:
    """Those of the fleet (`settings:` alone, no host's own), over group_data/all.py. Errors: SystemExit with the reason."""
    named = os.environ.get("GPU_FLEET", "").strip()
    file = Path(named or "fleet.yaml")
    data: dict[str, Any] = {}
    try:
        if Path("group_data/all.py").exists():
            data |= runpy.run_path("group_data/all.py")
        if named or file.exists():
            data |= (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("settings") or {}
        ours = {key: value for key, value in data.items() if is_ours(key)}
        return Settings(**with_mirror({**ours, **changes}))
    except (OSError, yaml.YAMLError, AttributeError) as error:
        raise SystemExit(f"Error: {file} cannot be read: {error}") from error
    except ValidationError as error:
        lines = [f"{one['loc'][0] if one['loc'] else ''}: {one['msg']}" for one in error.errors()]
        raise SystemExit("Error: " + "\n    ".join(lines)) from error


def _lock(given: argparse.Namespace, old: Lock | None) -> int:
    wanted = {setting: value for option, setting in OPTIONS.items() if (value := getattr(given, option))}
    channel = wanted.pop("k3s_version", None)
    now = settings(wanted)
    upstream = Upstream(now, Fetcher(now.proxies, now.private_ca))
    if channel:
        now = settings({**wanted, "k3s_version": upstream.k3s_version(channel)})
        upstream = Upstream(now, upstream.fetcher)
    locked = list(old.k3s.files) if old and old.k3s else ["amd64"]
    new = resolve.lock(
        upstream, given.arch or locked, not given.no_images, lambda text: print(f"    {text}", flush=True)
    )
    if problems := list(incompatible(new)):
        raise FetchError("these do not go together, nothing was written:\n" + "\n".join(problems))
    file, text = lockfile.path(), lockfile.render(new)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    if text == before:
        print(f"{file}: no change")
        return 0
    lines = difflib.unified_diff(
        before.splitlines(), text.splitlines(), "before", str(file), n=2, lineterm=""
    )
    print("\n".join(lines))
    scratch = file.with_name(f".new-{file.name}")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(file)
    print(f"{file}: written")
    return 0


def _check(lock: Lock) -> int:
    now = settings({})
    worst = 0
    for finding in check(lock, Upstream(now, Fetcher(now.proxies, now.private_ca))):
        print(f"{finding.kind:<13}{finding.text}")
        worst = max(worst, {"incompatible": 2, "changed": 2, "unknown": 1}.get(finding.kind, 0))
    return {0: 0, 1: 3, 2: 1}[worst]


def _bundle(given: argparse.Namespace, lock: Lock) -> int:
    now = settings(lock.versions())
    upstream = Upstream(now, Fetcher(now.proxies, now.private_ca))
    architectures = given.arch or (list(lock.k3s.files) if lock.k3s else ["amd64"])
    packer = Packer(given.folder, upstream, lock, lambda text: print(f"    {text}", flush=True))
    files = packer.make(architectures, not given.no_images)
    for part in sorted({entry.part for entry in files.values()}):
        sizes = [entry.size for entry in files.values() if entry.part == part]
        print(f"{part:<10}{len(sizes):>4} files {sum(sizes) / (1 << 20):>9.1f} MiB")
    print(
        f"{given.folder}: {len(files)} files, {sum(one.size for one in files.values()) / (1 << 20):.1f} MiB"
    )
    return 0


def main() -> int:
    """Exit status: 0 fine; check: 1 for what must not be installed, 3 for what could not be asked."""
    given = _parser().parse_args()
    try:
        lock = lockfile.current() if lockfile.path().exists() else None
        if given.command == "lock":
            return _lock(given, lock)
        if lock is None:
            raise LockError(f"{lockfile.path()} is not there: `python -m hami_k3s.releases lock` writes it")
        return _check(lock) if given.command == "check" else _bundle(given, lock)
    except (FetchError, LockError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
