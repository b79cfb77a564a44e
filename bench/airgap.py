"""Sizes and times of docs/air-gap.md: `python -m bench.airgap [--mib 512]`, as root. Four nodes, two for each way.

The rehearsal's files are small but for helm's; --mib gives k3s' archive of images the size of a real one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from bench import measure
from rehearsal import access, cleanup, inside, lifecycle
from rehearsal.state import State

HERE = Path(__file__).resolve().parents[1]
RELEASE = "www/right/k3s-io/k3s/releases/download/v1.36.2+k3s1"
NAME = "k3s-airgap-images-amd64.tar.zst"


def _grow(state: State, mib: int) -> None:
    """k3s' archive of images with this size, and its line in the sums."""
    folder, total = state.folder / RELEASE, hashlib.sha256()
    with (folder / NAME).open("wb") as out:
        for _ in range(mib):
            block = os.urandom(1 << 20)
            total.update(block)
            out.write(block)
    sums = folder / "sha256sum-amd64.txt"
    kept = [line for line in sums.read_text().splitlines() if not line.endswith(NAME)]
    sums.write_text("\n".join([f"{total.hexdigest()}  {NAME}", *kept, ""]))


def _fleet(state: State, path: Path, hosts: list[int], **settings: Any) -> Path:
    content = yaml.safe_load(state.fleet.read_text())
    key = content["settings"]["toolkit_key_fingerprint"]
    content["hosts"] = [content["hosts"][number] for number in hosts]
    content["settings"] = {"toolkit_key_fingerprint": key, **settings}
    path.write_text(yaml.safe_dump(content))
    return path


def _run(what: str, command: list[str], environment: dict[str, str], folder: Path) -> None:
    cost = measure.run(command, environment, HERE, folder / "log")
    print(f"| {what} | {cost.wall_s:.1f} s | {cost.memory_mib:.0f} MiB |", flush=True)
    if cost.status:
        sys.exit(cost.output[-3000:])


def _measure(state: State, folder: Path) -> None:
    lock, bundle = {"GPU_LOCK": str(folder / "lock.yaml")}, folder / "bundle"
    there = {**inside.environment(state), **lock, "XDG_CACHE_HOME": str(folder / "cache")}
    for what, words in (
        ("lock", ["lock"]),
        ("bundle", ["bundle", str(bundle)]),
        ("bundle again", ["bundle", str(bundle)]),
    ):
        command = inside.command(state, [sys.executable, "-m", "hami_k3s.releases", *words])
        _run(what, command, there, folder)
    files = [one.stat().st_size for one in bundle.rglob("*") if one.is_file()]
    print(f"\nThe bundle: {len(files)} files, {sum(files) / (1 << 20):.1f} MiB.\n")
    for node in [one["name"] for one in state.read()["nodes"]][:2]:
        access.ssh(state, node, ["ip route del default; sed -i /mirror/d /etc/hosts"])
    (state.folder / "www/right/served").symlink_to(bundle)
    sent = _fleet(state, folder / "sent.yaml", [0, 1], source="bundle", bundle=str(bundle))
    served = _fleet(state, folder / "served.yaml", [2, 3], mirror="https://mirror.rehearsal/served")
    print("| two hosts at once | time | memory of the command |\n|---|---|---|")
    for way, fleet in (("over SSH alone", sent), ("from a web server", served)):
        for what, deploy in (("first run", "gpu_node"), ("second run", "gpu_node"), ("verify", "verify")):
            command = [
                str(Path(sys.executable).with_name("pyinfra")),
                "inventory.py",
                f"deploys/{deploy}.py",
                "-y",
            ]
            reports = ["--data", f"report_folder={folder}/reports"]
            _run(f"{way}, {what}", [*command, *reports], {"GPU_FLEET": str(fleet), **lock}, folder)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--mib", type=int, default=512, help="size of k3s' archive of images (default %(default)s)"
    )
    parser.add_argument("--name", default="airgap", help="of the rehearsal (default %(default)s)")
    given = parser.parse_args()
    state = lifecycle.up(given.name, nodes=4)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _grow(state, given.mib)
            print("| command | time | memory |\n|---|---|---|")
            _measure(state, Path(folder))
    finally:
        for problem in cleanup.down(state):
            print(f"left behind: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
