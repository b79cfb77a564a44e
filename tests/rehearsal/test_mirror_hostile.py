"""What a hostile mirror may try: each is refused with its reason, and nothing of it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal import keys
from tests.rehearsal import mirror_runs

pytestmark = pytest.mark.rehearsal
PORTAL = "The answer came from https://mirror.rehearsal/portal/login"
KEY = "is not an OpenPGP key; it begins: <!DOCTYPE html>"
NO_SUM = "has no sha256 for"
# stage, fault, settings for the run, words of the refusal. In the order of the lab: what is before is installed.
TABLE: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = [
    ("toolkit", "mirror-down", (), ("the key could not be fetched", "toolkit_repository_url to a mirror")),
    ("toolkit", "html", (), (KEY, "Something in between answers")),
    ("toolkit", "portal", (), (KEY, PORTAL)),
    ("toolkit", "portal=http", (), ("http", "the key could not be fetched")),
    ("toolkit", "endless", ("toolkit_timeout=10",), ("stopped at its limit of 10 s (toolkit_timeout)",)),
    ("toolkit", "wrong-key", (), ("is the key WRONG, expected RIGHT: refused",)),
    ("toolkit", "wrong-key=repository", (), ("is not signed by the key RIGHT: refused",)),
    ("toolkit", "html=InRelease", (), ("did not answer with a repository: a login page",)),
    ("toolkit", "stale-index", (), ("1.18.2-1 , not 1.19.1-1: refused", "behind or offers an older index")),
    ("k3s", "mirror-down", (), ("could not fetch", "set k3s_release_url to a mirror")),
    ("k3s", "html", (), (NO_SUM, "it begins: <!DOCTYPE html>")),
    ("k3s", "html=/k3s", (), ("sha256 of", "It begins: <!DOCTYPE html>", "is refused")),
    ("k3s", "portal", (), (NO_SUM, PORTAL)),
    ("k3s", "portal=http", (), ("not supported or disabled", "could not fetch")),
    ("k3s", "endless", ("k3s_download_timeout=5",), ("k3s_download_timeout",)),
    ("k3s", "truncated", (), ("curl: (18)", "could not fetch")),
    ("k3s", "bad-checksum", (), ("sha256 of", "sha256sum-amd64.txt says", "is refused")),
    ("k3s", "rollback", (), ("says of itself: k3s version v1.35.6+k3s1", "not v1.36.2+k3s1: refused")),
    ("helm", "truncated", (), ("curl: (18)", "set helm_release_url to a mirror")),
    ("helm", "bomb", (), ("or one larger than 512 MiB: refused",)),
    ("helm", "rollback", (), ("says of itself: v4.0.0; that is not v4.2.3: refused",)),
    ("chart", "mirror-down", (), ("could not be fetched", "set hami_chart_repository to a mirror")),
    ("chart", "html", (), ("could not be fetched",)),
    ("chart", "html=.tgz", (), ("sha256 of chart hami 2.9.0", "expected CHART: refused")),
    ("chart", "portal", (), ("could not be fetched",)),
    (
        "chart",
        "endless",
        ("hami_ready_timeout=5",),
        ("could not be fetched", "needs a higher hami_ready_timeout"),
    ),
    ("chart", "stale-index", (), ("2.9.0", "could not be fetched")),
    ("chart", "republished", (), ("sha256 of chart hami 2.9.0", "is AGAIN", "expected CHART: refused")),
]
# What must be there after a refusal: what the stages before it installed, and nothing else.
INSTALLED = """dpkg-query -W -f '${Package} ${Version}\\n' '*nvidia-container*' 2>/dev/null
find /usr/local/lib/hami-k3s /usr/local/bin /var/lib/rancher /etc/rancher/k3s/registries.yaml -maxdepth 2 ! -type d 2>/dev/null
find /usr/local/lib/hami-k3s/charts /tmp /etc/apt/keyrings -name '*.tgz' -o -name 'tmp.*' -o -name '*.new*'
KUBECONFIG=/etc/rancher/k3s/k3s.yaml /usr/local/lib/hami-k3s/helm-v4.2.3 list -A -q 2>/dev/null"""


@pytest.fixture(scope="module")
def victim(rehearsal: Any) -> Iterator[Any]:
    with rehearsal("hostile") as node:
        yield node


@pytest.fixture(scope="module")
def reached() -> list[str]:
    """Stages that the node has."""
    return []


@pytest.mark.parametrize(
    ("stage", "fault", "data", "words"), TABLE, ids=[f"{row[0]}-{row[1]}" for row in TABLE]
)
def test_mirror(
    victim: Any,
    reached: list[str],
    tmp_path: Path,
    stage: str,
    fault: str,
    data: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    before = list(mirror_runs.STAGES)[: list(mirror_runs.STAGES).index(stage)]
    if missing := [one for one in before if one not in reached]:
        done = mirror_runs.run(tmp_path, victim.fleet, *missing)
        assert done.returncode == 0, done.stdout[-3000:]
        reached += missing
    content = victim.state.read()
    again = (victim.state.folder / "www/republished/HAMi/index.yaml").read_text().split("digest: ")[1:]
    names = {
        "RIGHT": keys.fingerprint("right"),
        "WRONG": keys.fingerprint("wrong"),
        "CHART": content["chart_sha256"],
        "AGAIN": next(one[:64] for one in again if "version: 2.9.0" in one),
    }
    had = victim.run(INSTALLED).stdout
    with victim.broken(fault):
        done = mirror_runs.run(tmp_path, victim.fleet, stage, data=data)
    assert done.returncode != 0, done.stdout[-3000:]
    for word in words:
        for name, value in names.items():
            word = word.replace(name, value)  # noqa: PLW2901
        assert word in done.stdout, done.stdout[-3000:]
    assert victim.run(INSTALLED).stdout == had


def test_mirror_that_is_right_again_finishes_the_job(victim: Any, tmp_path: Path) -> None:
    done = mirror_runs.run(tmp_path, victim.fleet, *mirror_runs.STAGES)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "hami" in victim.run(INSTALLED).stdout.split()
