"""helm-release.sh and apt-update.sh with stand-ins for helm and apt: order, refusal, clean-up, and what is said."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hami_k3s.templating import render

CHART = b"the chart's archive"
OFFER = {"package": "toolkit", "version": "1.19.1-1"}
VALUES = {"scheduler": {"kubeScheduler": {"image": {"tag": "v1.36.2"}}}, "note": "it's $(touch INJECTED)"}
HELM = """#!/bin/sh
echo "$*" >>"$0.calls"
case "$1" in
pull) [ -z "$FAIL_PULL" ] || { echo "Error: no such host" >&2; exit 1; }
    printf "the chart's archive" >"$8/hami-2.9.0.tgz" ;;
upgrade) for last; do [ "$before" = -f ] && cp "$last" "$0.values"; before=$last; done; exit "${FAIL_UPGRADE:-0}" ;;
esac
"""


class HelmScript:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.helm, self.chart, self.tmp = folder / "helm v4", folder / "charts" / "it's.tgz", folder / "tmp"
        self.at_work = folder / "charts" / "at work"
        self.tmp.mkdir()
        for path, text in (
            (self.helm, HELM),
            (folder / "k3s", "#!/bin/sh\necho hami-scheduler-x 1/2 ErrImagePull\n"),
        ):
            path.write_text(text)
            path.chmod(0o755)

    def run(self, fail: str = "", **changes: Any) -> subprocess.CompletedProcess[str]:
        values = {
            "helm": str(self.helm),
            "release": "hami",
            "namespace": "kube-system",
            "kubeconfig": "/etc/rancher/k3s/k3s.yaml",
            "cache": "/run/c",
            "at_work": str(self.at_work),
            "chart_file": str(self.chart),
            "repository": "https://project-hami.github.io/HAMi",
            "chart_version": "2.9.0",
            "chart_words": ["hami", "--repo", "https://project-hami.github.io/HAMi"],
            "chart_sent": "",
            "judge": "releases.lock.yaml",
            "chart_sha256": hashlib.sha256(CHART).hexdigest(),
            "values_json": json.dumps(VALUES, indent=1),
            "recover": "",
            "status": "absent",
            "good_revision": None,
            "limit": 300,
            "scheduler": "",
            "scheduler_hint": "An image that cannot be pulled: hami_values",
        }
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}", "TMPDIR": str(self.tmp)}
        if fail:
            environment[fail] = "3"
        log = self.folder / "log"
        with log.open(
            "w", encoding="utf-8"
        ) as out:  # not a pipe: the progress loop's last sleep outlives the script
            done = subprocess.run(
                ["sh", "-c", render("scripts/helm-release.sh", **{**values, **changes})],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=20,
                check=False,
            )
        assert list(self.tmp.iterdir()) == []  # values may hold secrets
        return subprocess.CompletedProcess(done.args, done.returncode, log.read_text(encoding="utf-8"))

    def calls(self) -> list[str]:
        return [line.split()[0] for line in Path(f"{self.helm}.calls").read_text().splitlines()]


@pytest.fixture
def helm(tmp_path: Path) -> HelmScript:
    return HelmScript(tmp_path)


def test_install(helm: HelmScript) -> None:
    assert helm.run().returncode == 0
    assert helm.calls() == ["pull", "upgrade"]
    assert helm.chart.read_bytes() == CHART
    assert json.loads(Path(f"{helm.helm}.values").read_text()) == VALUES


def test_a_helm_that_was_ended_in_its_work_leaves_a_mark_and_no_other(helm: HelmScript) -> None:
    whole = helm.helm.read_text()
    helm.run(recover="uninstall", status="pending-install")
    helm.run("FAIL_UPGRADE")
    assert helm.at_work.exists(), "the release is pending, says the API server"
    (helm.folder / "k3s").write_text("#!/bin/sh\nexit 0\n")
    helm.run("FAIL_UPGRADE")
    assert not helm.at_work.exists(), "helm has left no pending release"
    (helm.folder / "k3s").write_text("#!/bin/sh\nexit 1\n")
    helm.run("FAIL_UPGRADE")
    assert helm.at_work.exists(), "nobody knows"
    helm.helm.write_text(f'{whole.partition("case")[0]}[ "$1" != upgrade ] || kill -9 $$\n')
    assert helm.run().returncode == 137
    assert helm.at_work.exists()
    helm.helm.write_text(whole)
    assert helm.run().returncode == 0
    assert not helm.at_work.exists()


def test_a_verified_chart_is_not_fetched_again(helm: HelmScript) -> None:
    helm.run()
    helm.run()
    assert helm.calls() == ["pull", "upgrade", "upgrade"]


@pytest.mark.parametrize(("recover", "first"), [("uninstall", "uninstall"), ("rollback", "rollback")])
def test_recovery_comes_before_the_upgrade(helm: HelmScript, recover: str, first: str) -> None:
    done = helm.run(recover=recover, status="pending-upgrade", good_revision=4)
    assert done.returncode == 0
    assert helm.calls() == ["pull", first, "upgrade"]
    assert "was cut off (pending-upgrade)" in done.stdout


def test_chart_that_is_not_the_expected_one_never_reaches_helm(helm: HelmScript) -> None:
    done = helm.run(chart_sha256="a" * 64)
    assert done.returncode == 1
    assert helm.calls() == ["pull"]
    assert not helm.chart.exists()
    for words in (
        hashlib.sha256(CHART).hexdigest(),
        f"expected {'a' * 64}: refused",
        "set hami_chart_sha256",
    ):
        assert words in done.stdout


def test_chart_of_a_bundle_is_checked_too(helm: HelmScript, tmp_path: Path) -> None:
    sent = tmp_path / "sent.tgz"
    sent.write_bytes(CHART)
    assert helm.run(chart_sent=str(sent)).returncode == 0
    assert helm.calls() == ["upgrade"]
    helm.chart.unlink()
    sent.write_bytes(b"another")
    assert "refused" in helm.run(chart_sent=str(sent)).stdout
    assert not helm.chart.exists()


def test_chart_that_cannot_be_fetched(helm: HelmScript) -> None:
    done = helm.run("FAIL_PULL")
    assert done.returncode == 1
    assert "Error: no such host" in done.stdout
    assert "chart 2.9.0 could not be fetched from https://project-hami.github.io/HAMi" in done.stdout
    assert "hami_chart_repository" in done.stdout


def test_upgrade_that_fails_shows_the_pods(helm: HelmScript) -> None:
    done = helm.run("FAIL_UPGRADE")
    assert done.returncode == 3
    assert "pods: hami-scheduler-x 1/2 ErrImagePull" in done.stdout
    assert "An image that cannot be pulled: hami_values" in done.stdout


@pytest.mark.parametrize(
    ("apt", "words"),
    [
        ("W: GPG error: ... NO_PUBKEY DDCAE044F796ECB0", "is not signed by the key C95B: refused"),
        ("E: The repository is not signed.", "toolkit_key_fingerprint"),
        ("E: Clearsigned file isn't valid, got 'NOSPLIT'", "login page or proxy is in between"),
        ("E: Failed to fetch https://x Certificate verification failed", "update-ca-certificates"),
        ("E: Failed to fetch https://x Could not resolve host", "set toolkit_repository_url to a mirror"),
        ("E: Redirection from https to 'http://portal/' is forbidden", "sends elsewhere: a login page"),
        ("E: Could not get lock /var/lib/apt/lists/lock", "raise toolkit_timeout"),
    ],
)
def test_package_lists_say_why(tmp_path: Path, apt: str, words: str) -> None:
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\ncat <<"END" >&2\n{apt}\nEND\nexit 100\n')
    (tmp_path / "apt-get").chmod(0o755)
    script = render(
        "scripts/apt-update.sh", url="https://x", fingerprint="C95B", source="/s", limit=0, **OFFER
    )
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1
    assert apt in done.stdout  # apt's own words first
    assert words in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["apt-get"]


@pytest.mark.parametrize(
    ("offered", "words"),
    [("1.18.2-1", "offers toolkit 1.18.2-1 , not 1.19.1-1"), ("", "in no version at all")],
)
def test_older_package_lists_are_refused(tmp_path: Path, offered: str, words: str) -> None:
    line = f"echo ' toolkit | {offered} | https://x Packages'" if offered else ":"
    for name, text in (("apt-get", "exit 0"), ("apt-cache", line)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = render(
        "scripts/apt-update.sh", url="https://x", fingerprint="C95B", source="/s", limit=0, **OFFER
    )
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1
    assert words in done.stdout
    assert "behind or offers an older index" in done.stdout


@pytest.mark.parametrize("found", ["a" * 64, "b" * 64, ""])
def test_packages_must_have_the_locked_sum(tmp_path: Path, found: str) -> None:
    log = tmp_path / "installed"
    fake = f"case $1 in download) echo \"'https://x/t.deb' t.deb 9 SHA256:{found}\" ;; install) echo >{log} ;; esac"
    (tmp_path / "apt-get").write_text(f"#!/bin/sh\n{fake}\n")
    (tmp_path / "apt-get").chmod(0o755)
    script = render(
        "scripts/apt-install.sh",
        packages=["t=1"],
        update=False,
        hold=[],
        limit=1,
        sums={"t=1": "a" * 64},
        judge="the lock",
    )
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert log.exists() == (found == "a" * 64)
    if not log.exists():
        assert done.returncode == 1
        assert f"the lock says   {'a' * 64}" in done.stdout
        assert (found or "not there") in done.stdout


def test_package_lists_wait_for_another_apt(tmp_path: Path) -> None:
    state = tmp_path / "tries"
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").write_text(
        f"#!/bin/sh\necho x >>{state}\n[ $(wc -l <{state}) -gt 2 ] && exit 0\n"
        "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 77 (apt)'; exit 100\n"
    )
    (tmp_path / "apt-cache").write_text("#!/bin/sh\necho ' toolkit | 1.19.1-1 | https://x Packages'\n")
    for name in ("sleep", "apt-get", "apt-cache"):
        (tmp_path / name).chmod(0o755)
    script = render(
        "scripts/apt-update.sh", url="https://x", fingerprint="C95B", source="/s", limit=60, **OFFER
    )
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0
    assert done.stdout.count("waiting for another apt: Could not get lock") == 2
    assert "held by process 77" in done.stdout
