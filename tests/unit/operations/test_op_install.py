"""Preflight, toolkit, files and binaries: what is done from each state, and that nothing is done when it is right."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hami_k3s import releases
from hami_k3s.facts.binary import Binary, BinaryState
from hami_k3s.facts.cluster import Cluster
from hami_k3s.facts.host import Host
from hami_k3s.facts.toolkit import KEY, PACKAGES, SOURCE, MissingTools, Toolkit, ToolkitState
from hami_k3s.operations import binary, files, host, toolkit
from hami_k3s.releases.origin import Origin
from hami_k3s.settings import Settings
from hami_k3s.templating import render
from tests.unit.operations.fake_host import Call, FakeHost, operate
from tests.unit.test_lib_preflight import FINE

URL = "https://nvidia.github.io/libnvidia-container"
FINGERPRINT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
RIGHT = ToolkitState(
    fingerprints=(FINGERPRINT,),
    source=render("nvidia-container-toolkit.sources", url=URL, key=KEY).rstrip("\n"),
    candidates=("1.19.1-1",),
    installed=dict.fromkeys(PACKAGES, "1.19.1-1"),
    held=PACKAGES,
)


def repository(**changes: Any) -> tuple[list[Any], str | None]:
    facts = {Toolkit: replace(RIGHT, **changes)}
    return operate(toolkit.repository, facts, url=URL, fingerprint=FINGERPRINT, version="1.19.1", limit=60)


def packages(**changes: Any) -> tuple[list[Any], str | None]:
    return operate(
        toolkit.packages, {Toolkit: replace(RIGHT, **changes)}, url=URL, version="1.19.1", limit=60
    )


def steps(done: list[Any]) -> list[str]:
    """The units that run, the files that are written, and other commands."""
    names = []
    for one in done:
        name = one.arguments[0] if isinstance(one, Call) else one
        names += list(name) if isinstance(name, dict) else [name]
    return names


def test_gpu_host_that_is_fine() -> None:
    assert operate(host.gpu_host, {Host: FINE, Cluster: None}, settings=Settings()) == (
        [],
        "the host can be a GPU node",
    )


def test_gpu_host_refuses_with_every_problem() -> None:
    facts = {Host: replace(FINE, systemd=False, os_version="20.04"), Cluster: None}
    (refuse,), noop = operate(host.gpu_host, facts, settings=Settings())
    assert noop is None
    assert isinstance(refuse, Call)
    seen = FakeHost()
    assert refuse.run(seen) is False
    assert seen.said[0] == "2 problems; nothing was changed on this host:"
    assert [line.split(":")[0] for line in seen.said[1:]] == ["- no-systemd", "- os"]


def test_repository_that_is_right() -> None:
    assert repository() == ([], "the repository is there, with the right key")


def test_repository_on_a_fresh_host() -> None:
    done, _ = repository(
        fingerprints=(), source=None, candidates=(), installed={}, missing_tools=("curl", "gpg")
    )
    assert steps(done) == ["apt-tools", "apt-key", SOURCE, "apt-update"]
    assert "curl gpg" in done[0].script
    (written,) = [one.arguments[0] for one in done if one.function == "write"]
    assert written == {SOURCE: (f"{RIGHT.source}\n", "644")}
    assert [call.arguments[3:] for call in done if call.function == "work"] == [(60, "toolkit_timeout")] * 3


@pytest.mark.parametrize("keys", [("A" * 40,), (FINGERPRINT, "A" * 40)])
def test_another_key_is_rotated(keys: tuple[str, ...]) -> None:
    assert steps(repository(fingerprints=keys)[0]) == ["apt-key", "apt-update"]


def test_another_url_rewrites_the_source_only() -> None:
    assert steps(repository(source="Types: deb")[0]) == [SOURCE, "apt-update"]


def test_lists_without_the_wanted_version_are_fetched_again() -> None:
    assert steps(repository(candidates=("1.18.2-1",), installed={})[0]) == ["apt-update"]
    # ... but not on a host that has it: lists may be thrown away to save space
    assert repository(candidates=())[0] == []


def test_another_source_of_the_same_repository_is_moved_aside() -> None:
    done, _ = repository(others=("/etc/apt/sources.list.d/it's.list",))
    assert done[0].startswith("mv -f '/etc/apt/sources.list.d/it'\"'\"'s.list' ")
    assert done[0].count(".disabled-by-hami-k3s") == 2
    assert steps(done[1:]) == ["apt-update"]


def test_packages_that_are_right() -> None:
    assert packages(held=(*PACKAGES, "linux-image")) == ([], "the toolkit is 1.19.1, held")


@pytest.mark.parametrize(
    "changes",
    [
        {"installed": {}},
        {"installed": {**RIGHT.installed, PACKAGES[3]: "1.18.2-1"}},
        {"held": PACKAGES[:3]},
    ],
)
def test_packages_are_one_transaction(changes: dict[str, Any]) -> None:
    (install,), _ = packages(**changes)
    for package in PACKAGES:
        assert f"{package}=1.19.1-1" in install.script
    assert "apt-mark hold " + " ".join(PACKAGES) in install.script
    assert "DPkg::Lock::Timeout=60" in install.script
    assert "apt-get update" not in install.script


def test_a_host_without_a_card_gets_what_downloads_need() -> None:
    def tools(*missing: str, **more: Any) -> tuple[list[Any], str | None]:
        return operate(toolkit.tools, {MissingTools: list(missing)}, limit=60, **more)

    (install,), noop = tools("curl", "gpg", "ca-certificates")
    assert (install.arguments[0], install.arguments[3:], noop) == ("apt-tools", (60, "toolkit_timeout"), None)
    assert "curl ca-certificates" in install.script
    assert "gpg" not in install.script  # it checks the key of a repository that this host does not get
    assert tools() == tools("gpg") == ([], "downloads are possible")
    bundle: Any = object()
    assert tools("curl", origin=Origin(bundle=bundle)) == ([], "nothing is downloaded")


def test_owned_files_are_written_whole_with_their_mode(tmp_path: Path) -> None:
    path, odd = tmp_path / "new folder" / "a", tmp_path / "$(touch x)"
    odd.write_text("before")
    script = files.script({str(path): ("é 'text'\nEND\n", "600"), str(odd): ("", "755")})
    subprocess.run(["sh", "-s"], input=script, text=True, check=True, cwd=tmp_path)
    assert path.read_text() == "é 'text'\nEND\n"
    assert (path.stat().st_mode & 0o777, odd.stat().st_mode & 0o777) == (0o600, 0o755)
    assert path.parent.stat().st_mode & 0o777 == 0o755
    assert odd.read_text() == ""
    assert sorted(one.name for one in tmp_path.iterdir()) == ["$(touch x)", "new folder"]


def test_a_file_that_cannot_be_written_fails_the_host_with_the_reason() -> None:
    host: Any = FakeHost(answer=lambda script, stdin: (False, "No space left on device"))
    assert not files.write(None, host, {"/etc/a": ("x", "600")})  # type: ignore[arg-type]
    assert host.said == ["/etc/a could not be written: No space left on device"]


VERSIONED = "/usr/local/lib/hami-k3s/helm-v4.2.3"


def released(state: BinaryState, **more: Any) -> tuple[list[Any], str | None]:
    tool = binary.Tool("helm", "v4.2.3", releases.helm_urls, "https://get.helm.sh", "helm_release_url", 300)
    return operate(binary.released, {Binary: state}, tool=tool, **more)


def test_binary_that_is_there() -> None:
    assert released(BinaryState("x86_64", True, VERSIONED)) == ([], "helm v4.2.3 is there")


@pytest.mark.parametrize(("machine", "arch"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_binary_on_a_fresh_host(machine: str, arch: str) -> None:
    (download, link), _ = released(BinaryState(machine))
    assert download.arguments[0] == "helm-download"
    assert download.arguments[3:] == (300, "helm_download_timeout")
    assert f"url=https://get.helm.sh/helm-v4.2.3-linux-{arch}.tar.gz\n" in download.script
    assert f"linux-{arch}/helm" in download.script
    assert f"dest={VERSIONED}\n" in download.script
    assert link.startswith(f"ln -sfn {VERSIONED} /usr/local/bin/helm.new && mv -fT /usr/local/bin/helm.new")


def test_upgrade_downloads_then_moves_the_link() -> None:
    done, _ = released(BinaryState("x86_64", False, "/usr/local/lib/hami-k3s/helm-v4.1.0"))
    assert [type(one) for one in done] == [Call, str]


def test_link_that_an_interrupted_run_did_not_make() -> None:
    (link,), _ = released(BinaryState("x86_64", True, ""))
    assert link.startswith("ln -sfn")


@pytest.mark.parametrize("link", ["file", "/opt/helm/bin/helm"])
def test_somebody_elses_helm_stays_and_their_k3s_does_not(link: str) -> None:
    state = BinaryState("x86_64", True, link)
    assert released(state, replace=False) == ([], "helm v4.2.3 is there")
    assert len(released(state, replace=True)[0]) == 1


def test_aliases_give_way_to_a_command_of_that_name() -> None:
    (link,), _ = released(BinaryState("x86_64", True, ""), aliases=("kubectl",))
    assert link.endswith("&& { command -v kubectl >/dev/null || ln -s helm /usr/local/bin/kubectl; }")
