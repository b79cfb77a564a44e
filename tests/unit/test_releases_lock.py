"""The lock decides: versions, sums, and what is said when a setting or upstream differs from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hami_k3s.releases import compare, lockfile
from hami_k3s.releases.origin import Origin
from hami_k3s.settings import Settings, SettingsError, check

A, B = "a" * 64, "b" * 64
FILE = {"url": "https://x/k3s", "sha256": A}
DATA: dict[str, Any] = {
    "k3s": {"version": "v1.36.2+k3s1", "files": {"amd64": FILE}},
    "toolkit": {"version": "1.19.1", "packages": {"amd64": {"nvidia-container-toolkit": FILE}}},
    "hami": {"version": "2.10.0", "url": "https://x/c.tgz", "sha256": B, "kube_version": ">= 1.18.0-0"},
}
LOCK = lockfile.Lock.model_validate(DATA)


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "lock.yaml"
    file.write_text(lockfile.render(LOCK))
    monkeypatch.setenv("GPU_LOCK", str(file))
    return file


def test_the_file_says_it_all_and_the_same_each_time(locked: Path) -> None:
    assert lockfile.current() == LOCK
    assert lockfile.render(lockfile.parse(locked.read_text(), "x")) == locked.read_text()


def test_versions_and_the_charts_sum_are_the_locks(locked: Path) -> None:
    assert lockfile.pinned("hami_chart_version", "2.9.0") == "2.10.0"
    assert lockfile.pinned("helm_version", "v4.2.3") == "v4.2.3"
    settings = check({"hami_chart_version": "2.10.0"})
    assert (settings.chart_sha256, settings.chart_judge) == (B, str(locked))


def test_settings_that_differ_from_the_lock_are_all_told(locked: Path) -> None:
    with pytest.raises(SettingsError) as told:
        check(
            {
                "k3s_version": "v1.35.6+k3s1",
                "toolkit_version": "1.18.2",
                "hami_chart_version": "2.10.0",
                "hami_chart_sha256": A,
            }
        )
    text = str(told.value)
    assert f"k3s_version: it is v1.35.6+k3s1, but {locked} locks v1.36.2+k3s1" in text
    assert "toolkit_version: it is 1.18.2" in text
    assert f"hami_chart_sha256: it is {A}, but {locked} says {B}" in text


@pytest.mark.parametrize(
    "text", ["{", "format: 2", "k3s: {version: 1}", "extra: 1", "hami: {version: x, url: u, sha256: A}"]
)
def test_lock_that_is_none_is_an_error_that_names_it(locked: Path, text: str) -> None:
    locked.write_text(text)
    with pytest.raises(SettingsError, match=str(locked)):
        check({})


def test_named_lock_that_is_not_there(locked: Path) -> None:
    locked.unlink()
    with pytest.raises(SettingsError, match=r"GPU_LOCK names .*not there"):
        check({})


def test_sums_by_architecture() -> None:
    origin = Origin(LOCK)
    assert origin.sha256("k3s", "amd64") == A
    assert origin.sha256("k3s", "arm64") is None  # locked, but not for this machine: refused
    assert origin.sha256("helm", "arm64") == ""  # not locked: the release's own sums
    assert origin.debs("amd64") == {"nvidia-container-toolkit": A}
    assert origin.debs("arm64") is None
    assert Origin().debs("arm64") == {}


@pytest.mark.parametrize(
    ("constraint", "version", "answer"),
    [
        (">= 1.18.0-0", "v1.36.2+k3s1", True),
        (">=1.16.0", "v1.36.2+k3s1", True),
        (">= 1.37", "v1.36.2+k3s1", False),
        (">= 1.18.0, < 1.36.0", "v1.36.2+k3s1", False),
        (">= 1.18.0 < 2", "v1.36.2+k3s1", True),
        ("= 1.36.2", "v1.36.2+k3s1", True),
        ("~1.36 || ^2", "v1.36.2+k3s1", None),
    ],
)
def test_kube_version(constraint: str, version: str, answer: bool | None) -> None:
    assert compare.fits(constraint, version) is answer


def test_what_does_not_go_together() -> None:
    assert list(compare.incompatible(LOCK)) == []
    bad = {
        "k3s": {**DATA["k3s"], "version": "v1.17.0+k3s1"},
        "toolkit": {**DATA["toolkit"], "version": "1.18.1"},
        "hami": {**DATA["hami"], "version": "2.8.2"},
    }
    told = "\n".join(compare.incompatible(lockfile.Lock.model_validate(bad)))
    assert "wants Kubernetes >= 1.18.0-0, k3s is v1.17.0+k3s1" in told
    assert "toolkit_version 1.18.1: 1.18.1 and earlier treat" in told
    assert "hami_chart_version 2.8.2: which key this chart reads" in told


def test_differences_name_both_sums_and_ignore_where_a_file_was_found() -> None:
    now = {"url": "https://mirror/k3s", "sha256": B}
    assert list(compare.differing(FILE, now, "k3s")) == [f"k3s.sha256: the lock says {A}, upstream says {B}"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"mirror": "cn"}, "https://mirrors.ustc.edu.cn/libnvidia-container"),
        ({"mirror": "cn", "toolkit_repository_url": "https://mine/x"}, "https://mine/x"),
        ({"mirror": "https://m/files/"}, "https://m/files/libnvidia-container"),
        ({}, "https://nvidia.github.io/libnvidia-container"),
    ],
)
def test_mirror_is_only_a_default(data: dict[str, str], expected: str) -> None:
    assert check(data).toolkit_repository_url == expected


def test_every_preset_is_replaced_by_its_setting() -> None:
    from hami_k3s.releases.origin import PRESETS

    for name, preset in PRESETS.items():
        found = check({"mirror": name})
        assert {key: getattr(found, key) for key in preset} == preset
        for key in preset:
            assert getattr(check({"mirror": name, key: getattr(Settings(), key)}), key) == getattr(
                Settings(), key
            )
