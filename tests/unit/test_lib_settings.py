"""Settings: defaults that work, every check with its advice, all problems at once, pages that follow the code."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_k3s import releases
from hami_k3s.settings import Settings, SettingsError, check
from hami_k3s.settings.__main__ import markdown

ROOT = Path(__file__).resolve().parents[2]
SUM = "a" * 64


def refused(**data: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        check(data)
    return str(caught.value)


def test_defaults_work() -> None:
    assert check({}) == Settings()
    assert check({}).chart_sha256 == releases.CHART_SHA256["2.9.0"]


@pytest.mark.parametrize(
    ("key", "value", "advice"),
    [
        ("toolkit_version", "1.18.1", "NVIDIA_VISIBLE_DEVICES=none as all devices; set 1.18.2 or later"),
        ("toolkit_version", "1.19", 'three numbers in quotes, for example "1.19.1"'),
        ("toolkit_version", "v1.19.1", "three numbers"),
        ("toolkit_version", "1.19.1-1", "three numbers"),
        ("toolkit_version", 1.19, "valid string"),
        ("toolkit_key_fingerprint", "DDCAE044F796ECB0", "40 hexadecimal digits"),
        ("toolkit_repository_url", "ftp://mirror", "https?"),
        ("toolkit_repository_url", "https://mirror/x/", "https?"),
        ("toolkit_repository_url", "https://mirror/x y", "https?"),
        ("toolkit_timeout", 3, "greater than or equal to 10"),
        ("toolkit_timeout", "soon", "integer"),
        ("k3s_version", "v1.36.2", "v1.36.2+k3s1"),
        ("k3s_version", "v1.36.2-k3s1", "v1.36.2+k3s1"),
        ("k3s_version", "v1.28.4+k3s2", "v1.28.5+k3s1"),
        ("k3s_kubeconfig_mode", "rw", "pattern"),
        ("k3s_kubeconfig_mode", 644, "valid string"),
        ("k3s_release_url", "mirror", "https?"),
        ("k3s_ready_timeout", 0, "greater than"),
        ("k3s_node_ip", "gpu-1", "write an IP address, for example 10.0.0.1"),
        ("k3s_node_ip", "10.0.0", "write an IP address"),
        ("k3s_node_ip", "$(touch x)", "write an IP address"),
        ("k3s_node_ip", "FD00:0::1", "write it as fd00::1"),
        ("k3s_node_ip", "fe80::1%eth0", "write it as fe80::1"),
        ("k3s_cluster", "Lab_1", "pattern"),
        ("k3s_role", "master", "'server' or 'agent'"),
        ("k3s_gpu", "perhaps", "boolean"),
        ("helm_version", "4.2.3", "for example v4.2.3"),
        ("helm_version", "v2.17.0", "helm 3 or 4"),
        ("hami_chart_version", "2.8.2", "known charts: 2.6.0"),
        ("hami_chart_version", "2.5.3", "known charts: 2.6.0"),
        ("hami_chart_sha256", "A" * 64, "pattern"),
        ("hami_chart_sha256", "abc", "pattern"),
        ("hami_release", "HAMi", "pattern"),
        ("hami_namespace", "a; touch x", "pattern"),
        ("hami_scheduler_registry", "$(touch x)", "pattern"),
        ("hami_values", "scheduler", "dictionary"),
        ("verify_probe", "cuda", "'driver' or 'nvcc'"),
        ("verify_image", "-x", "pattern"),
        ("verify_slice_mib", 0, "greater than 0"),
        ("verify_overask_mib", -1, "greater than 0"),
        ("reset_k3s", "perhaps", "boolean"),
    ],
)
def test_value_that_cannot_work(key: str, value: object, advice: str) -> None:
    message = refused(**{key: value})
    assert message.startswith(f"{key}: ")
    assert advice in message
    assert repr(value) in message
    assert "Value error" not in message


@pytest.mark.parametrize(
    "key", ["mirror", "k3s_release_url", "driver_repository_url", "hami_chart_repository"]
)
def test_credentials_in_a_url(key: str) -> None:
    message = refused(**{key: "https://user:token@mirror.example/k3s"})
    assert message.startswith(f"{key}: credentials in a URL would show")
    assert "token" not in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("toolkit_version", "1.18.2"),
        ("toolkit_version", "2.0.0"),
        ("k3s_version", "v1.28.5+k3s1"),
        ("k3s_version", "v1.36.10+k3s2"),
        ("k3s_kubeconfig_mode", "644"),
        ("k3s_node_ip", "10.0.0.1"),
        ("k3s_node_ip", "fd00::1"),
        ("helm_version", "v3.19.0"),
        ("toolkit_repository_url", "http://127.0.0.1:8000"),
        ("verify_image", "mirror.example:5000/python@sha256:" + SUM),
        ("hami_scheduler_repository", "google_containers/kube-scheduler"),
    ],
)
def test_value_that_works(key: str, value: str) -> None:
    assert getattr(check({key: value}), key) == value


def test_fingerprint_as_gpg_prints_it() -> None:
    given_ = "C95B 321B 61E8 8C18 09C4  F759 DDCA E044 F796 ECB0".lower()
    assert (
        check({"toolkit_key_fingerprint": given_}).toolkit_key_fingerprint
        == Settings().toolkit_key_fingerprint
    )


def test_strings_from_the_command_line() -> None:
    """`--data key=value`: pyinfra gives strings for what is not JSON."""
    found = check({"verify_slice_mib": "8000", "reset_k3s": "true"})
    assert (found.verify_slice_mib, found.reset_k3s) == (8000, True)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("k3s_verison", "k3s_version"),
        ("hami_chart_sha", "hami_chart_sha256"),
        ("verify_slice_mb", "verify_slice_mib"),
        ("toolkit_repo_url", "toolkit_repository_url"),
        ("reset_k3", "reset_k3s"),
    ],
)
def test_unknown_setting_with_the_nearest_name(key: str, near: str) -> None:
    assert refused(**{key: "x"}) == f"{key}: unknown setting; did you mean {near}?"


def test_unknown_setting_like_no_other() -> None:
    assert refused(helm_qqqqqqqqqqqqqqqq=1).endswith("docs/settings.md lists the known ones")


def test_other_peoples_data_is_theirs() -> None:
    assert check({"ssh_user": "root", "_sudo": True, "app_version": 3, "k3": 1}) == Settings()


def test_all_problems_at_once() -> None:
    lines = refused(
        k3s_verison="x", helm_version="4", verify_probe="cuda", verify_slice_mib=0, toolkit_version="1.17.0"
    ).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "k3s_verison",
        "toolkit_version",
        "helm_version",
        "verify_probe",
        "verify_slice_mib",
    ]


def test_chart_without_a_known_sum() -> None:
    message = refused(hami_chart_version="2.6.1")
    assert "no sum is known for chart 2.6.1" in message
    assert "helm pull hami --repo https://project-hami.github.io/HAMi --version 2.6.1" in message
    assert check({"hami_chart_version": "2.6.1", "hami_chart_sha256": SUM}).chart_sha256 == SUM
    assert check({"hami_chart_sha256": SUM}).chart_sha256 == SUM  # a mirror that packed it again
    assert len(refused(hami_chart_version="2.6.1", hami_relese="x").splitlines()) == 2


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        check({}).k3s_version = "v1.30.0+k3s1"


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_any_data_is_checked_or_refused(data: dict[str, Any]) -> None:
    ours = {f"{prefix}{key}": value for prefix in ("", "k3s_", "verify_") for key, value in data.items()}
    try:
        found = check(ours)
    except SettingsError:
        return
    assert isinstance(found, Settings)


def test_settings_page_is_the_generators() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == markdown()


def test_settings_page_has_every_setting_with_a_description() -> None:
    page = markdown()
    for name, field in Settings.model_fields.items():
        assert f"| `{name}` |" in page
        assert field.description


def test_group_data_equals_the_defaults() -> None:
    """`group_data/all.py` shows the pins; what it says and what the code does must not drift apart."""
    data = {
        k: v for k, v in runpy.run_path(str(ROOT / "group_data" / "all.py")).items() if not k.startswith("_")
    }
    assert check(data) == Settings()
    assert set(data) <= set(Settings.model_fields)
    assert {"k3s_version", "toolkit_version", "helm_version", "hami_chart_version"} <= set(data)
