"""Versions, URLs and the chart's values."""

import re
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_k3s import chart, releases
from hami_k3s.settings import Settings

K3S = st.builds("v1.{}.{}+k3s{}".format, st.integers(28, 99), st.integers(0, 30), st.integers(1, 9))
BASE = "https://github.com/k3s-io/k3s/releases/download"
SUM = "a" * 64
OLD, NEW = Settings(hami_chart_version="2.6.1", hami_chart_sha256=SUM), Settings()


def test_k3s_urls() -> None:
    folder = f"{BASE}/v1.36.2%2Bk3s1"
    assert releases.k3s_urls(BASE, "v1.36.2+k3s1", "amd64") == (
        f"{folder}/k3s",
        f"{folder}/sha256sum-amd64.txt",
        "k3s",
    )
    assert releases.k3s_urls(BASE, "v1.36.2+k3s1", "arm64") == (
        f"{folder}/k3s-arm64",
        f"{folder}/sha256sum-arm64.txt",
        "k3s-arm64",
    )


def test_helm_urls() -> None:
    archive = "helm-v4.2.3-linux-arm64.tar.gz"
    assert releases.helm_urls("https://get.helm.sh", "v4.2.3", "arm64") == (
        f"https://get.helm.sh/{archive}",
        f"https://get.helm.sh/{archive}.sha256sum",
        archive,
    )


@given(K3S)
def test_a_plus_is_never_left_in_a_path(version: str) -> None:
    """GitHub and object stores read `+` as a space."""
    for url in releases.k3s_urls(BASE, version, "amd64")[:2]:
        assert "+" not in url
        assert unquote(urlsplit(url).path).split("/")[-2] == version


@given(K3S)
def test_scheduler_tag_is_the_upstream_version(version: str) -> None:
    tag = releases.scheduler_tag(version)
    assert re.fullmatch(r"v1\.\d+\.\d+", tag)
    assert version.startswith(f"{tag}+")
    assert releases.scheduler_tag(tag) == tag  # kubeadm's servers have no suffix


@given(st.tuples(*[st.integers(0, 99)] * 4), st.tuples(*[st.integers(0, 99)] * 4))
def test_versions_are_ordered_as_numbers(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    def text(version: tuple[int, ...]) -> str:
        return "v{}.{}.{}+k3s{}".format(*version)

    assert (releases.numbers(text(one)) < releases.numbers(text(two))) == (one < two)


@pytest.mark.parametrize(
    ("older", "newer"),
    [("v1.9.9+k3s1", "v1.36.2+k3s1"), ("v1.36.2+k3s1", "v1.36.2+k3s2"), ("v1.36.2+k3s9", "v1.36.10+k3s1")],
)
def test_order(older: str, newer: str) -> None:
    assert releases.numbers(older) < releases.numbers(newer)


def test_architectures() -> None:
    assert [releases.architecture(name) for name in ("x86_64", "aarch64", "riscv64", "")] == [
        "amd64",
        "arm64",
        None,
        None,
    ]


def test_values_of_2_9() -> None:
    assert chart.values(NEW, "v1.36.2+k3s1", 1, 1) == {
        "scheduler": {
            "kubeScheduler": {
                "image": {"registry": "registry.k8s.io", "repository": "kube-scheduler", "tag": "v1.36.2"}
            },
            "service": {"type": "ClusterIP"},
            "leaderElect": False,
        },
        "devicePlugin": {"service": {"type": "ClusterIP"}},
    }


def test_values_of_2_6() -> None:
    """There the image is one string, and the tag has a key of its own."""
    assert chart.values(OLD, "v1.36.2+k3s1", 1, 1)["scheduler"] == {
        "kubeScheduler": {"image": "registry.k8s.io/kube-scheduler", "imageTag": "v1.36.2"},
        "service": {"type": "ClusterIP"},
    }


@pytest.mark.parametrize(
    ("version", "servers", "nodes", "said"),
    [
        ("2.9.0", 1, 1, (None, False)),  # leader election is off where it is in the way
        ("2.9.0", 1, 4, (None, False)),
        ("2.6.1", 1, 1, (None, None)),
        ("2.9.0", 3, 6, (3, True)),
        ("2.9.0", 5, 9, (3, True)),
        ("2.9.0", 3, 4, (3, True)),
        ("2.9.0", 3, 3, (2, True)),  # an upgrade needs a node without a scheduler
        ("2.9.0", 2, 3, (2, True)),
        ("2.9.0", 2, 2, (None, False)),
        ("2.10.0", 3, 3, (3, True)),
        ("2.10.0", 2, 2, (2, True)),
        (
            "2.8.3",
            3,
            6,
            (None, False),
        ),  # a rollout waits for schedulers that do not lead, and they are never ready
        ("2.7.1", 3, 6, (None, None)),
        ("2.6.1", 3, 6, (None, None)),
    ],
)
def test_several_servers_have_several_schedulers(
    version: str, servers: int, nodes: int, said: tuple[int | None, bool | None]
) -> None:
    settings = Settings(hami_chart_version=version, hami_chart_sha256=SUM)
    scheduler = chart.values(settings, "v1.36.2+k3s1", servers, nodes)["scheduler"]
    assert (scheduler.get("replicas"), scheduler.get("leaderElect")) == said


def test_user_values_win_over_the_number_of_schedulers() -> None:
    settings = NEW.model_copy(update={"hami_values": {"scheduler": {"replicas": 1}}})
    scheduler = chart.values(settings, "v1.36.2+k3s1", 3, 6)["scheduler"]
    assert (scheduler["replicas"], scheduler["leaderElect"]) == (1, True)


@pytest.mark.parametrize("version", ["2.6.0", "2.6.1", "2.7.0", "2.8.3", "2.9.0", "2.10.0"])
def test_every_known_chart_gets_the_tag_where_it_reads_it(version: str) -> None:
    settings = Settings(hami_chart_version=version, hami_chart_sha256=SUM)
    found = chart.values(settings, "v1.35.4+k3s2", 1, 1)
    for key in releases.scheduler_tag_path(version):
        found = found[key]
    assert found == "v1.35.4"


def test_mirror_of_the_scheduler_image() -> None:
    data = {
        "hami_scheduler_registry": "mirror.example:5000",
        "hami_scheduler_repository": "k8s/kube-scheduler",
    }
    new = chart.values(NEW.model_copy(update=data), "v1.36.2", 1, 1)["scheduler"]["kubeScheduler"]
    old = chart.values(OLD.model_copy(update=data), "v1.36.2", 1, 1)["scheduler"]["kubeScheduler"]
    assert new["image"]["registry"] == "mirror.example:5000"
    assert old["image"] == "mirror.example:5000/k8s/kube-scheduler"


LOCKED = {
    "docker.io/projecthami/hami:v2.9.0": f"sha256:{'a' * 64}",
    "registry.k8s.io/kube-scheduler:v1.36.2": f"sha256:{'b' * 64}",
    "docker.io/liangjw/kube-webhook-certgen:v1.1.1": f"sha256:{'c' * 64}",
}


def test_locked_images_are_named_by_digest() -> None:
    found = chart.values(NEW, "v1.36.2+k3s1", 1, 1, LOCKED)
    assert found["scheduler"]["kubeScheduler"]["image"]["tag"] == f"v1.36.2@sha256:{'b' * 64}"
    assert found["scheduler"]["patch"]["imageNew"] == {"tag": f"v1.1.1@sha256:{'c' * 64}"}
    assert found["global"] == {"imageTag": f"v2.9.0@sha256:{'a' * 64}"}
    old = chart.values(OLD, "v1.36.2+k3s1", 1, 1, LOCKED)
    assert old["scheduler"]["kubeScheduler"]["imageTag"] == f"v1.36.2@sha256:{'b' * 64}"
    jobs = f"docker.io/liangjw/kube-webhook-certgen:v1.1.1@sha256:{'c' * 64}"
    assert old["scheduler"]["patch"]["imageNew"] == jobs
    assert old["version"] == f"v2.9.0@sha256:{'a' * 64}"


def test_images_that_the_lock_does_not_have_keep_their_tags() -> None:
    """Another kube-scheduler, and two images of HAMi under one tag: no digest is right for both."""
    two = {**LOCKED, "docker.io/mine/hami-plugin:v2.9.0": f"sha256:{'d' * 64}"}
    found = chart.values(NEW, "v1.35.6+k3s1", 1, 1, two)
    assert found["scheduler"]["kubeScheduler"]["image"]["tag"] == "v1.35.6"
    assert "global" not in found


def test_user_values_win_key_by_key() -> None:
    user = {
        "scheduler": {"service": {"type": "NodePort", "schedulerPort": 31998}, "leaderElect": True},
        "devicePlugin": {"deviceSplitCount": 4},
        "global": {"imageTag": "v2.9.1"},
    }
    settings = NEW.model_copy(update={"hami_values": user})
    found = chart.values(settings, "v1.36.2", 1, 1)
    assert found["scheduler"]["service"] == {"type": "NodePort", "schedulerPort": 31998}
    assert found["scheduler"]["leaderElect"] is True
    assert found["scheduler"]["kubeScheduler"]["image"]["tag"] == "v1.36.2"
    assert found["devicePlugin"] == {"service": {"type": "ClusterIP"}, "deviceSplitCount": 4}
    assert found["global"] == {"imageTag": "v2.9.1"}
    assert settings.hami_values == user  # merging changes neither side


TREE = st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8)


@given(st.dictionaries(st.sampled_from("abc"), TREE), st.dictionaries(st.sampled_from("abc"), TREE))
def test_merged(base: dict[str, object], over: dict[str, object]) -> None:
    found = chart.merged(base, over)
    assert chart.merged(found, over) == found
    assert set(found) == set(base) | set(over)
    assert chart.merged(base, {}) == base
