"""Images by their locked digests: names, settings that must be locked, and containers that run something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hami_k3s import chart, locked_images, releases
from hami_k3s.facts.hami import HamiPod
from hami_k3s.releases import archives, lockfile
from hami_k3s.releases.lockfile import Image, Lock
from hami_k3s.releases.origin import Origin
from hami_k3s.releases.reference import full
from hami_k3s.settings import SettingsError, check

ONE, TWO, ARM = (f"sha256:{letter * 64}" for letter in "abc")
HAMI = "docker.io/projecthami/hami:v2.9.0"
SCHEDULER = "registry.k8s.io/kube-scheduler:v1.36.2"
PROBE = "docker.io/library/python:3.12-slim"
LOCKED = Image(digest=ONE, manifests={"amd64": TWO})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("python:3.12-slim", PROBE),
        (f"python:3.12-slim@{ONE}", PROBE),
        ("projecthami/hami:v2.9.0", HAMI),
        ("localhost/x", "localhost/x:latest"),
        ("r:5000/a/b:c", "r:5000/a/b:c"),
    ],
)
def test_full_names(text: str, name: str) -> None:
    assert full(text) == name


NEW: dict[str, Any] = {
    "global": {"imageRegistry": "", "imageTag": "v2.9.0"},
    "scheduler": {
        "kubeScheduler": {
            "image": {"registry": "registry.k8s.io", "repository": "kube-scheduler", "tag": "v1.36.2"}
        },
        "extender": {"image": {"registry": "docker.io", "repository": "projecthami/hami", "tag": ""}},
        "patch": {"imageNew": {"registry": "docker.io", "repository": "liangjw/certgen", "tag": "v1"}},
    },
    "devicePlugin": {
        "image": {"registry": "docker.io", "repository": "projecthami/hami", "tag": "mine"},
        "monitor": {"image": {"registry": "docker.io", "repository": "projecthami/hami", "tag": ""}},
    },
}


def test_images_of_a_chart() -> None:
    own, mine = HAMI, HAMI.replace("v2.9.0", "mine")
    assert chart.images("2.9.0", NEW) == [own, mine, SCHEDULER, "docker.io/liangjw/certgen:v1"]
    assert chart.images("2.8.3", NEW)[0:2] == [own, SCHEDULER]  # there the global tag wins
    moved = chart.images("2.9.0", chart.merged(NEW, {"global": {"imageRegistry": "r.inside"}}))
    assert all(image.startswith("r.inside/") for image in moved)
    old = {
        "version": "v2.6.1",
        "scheduler": {
            "kubeScheduler": {"image": "registry.k8s.io/kube-scheduler", "imageTag": "v1.36.2"},
            "extender": {"image": "projecthami/hami"},
            "patch": {"imageNew": "liangjw/certgen:v1"},
        },
        "devicePlugin": {"image": "projecthami/hami"},
    }
    assert chart.images("2.6.1", old) == [
        HAMI.replace("2.9.0", "2.6.1"),
        SCHEDULER,
        "docker.io/liangjw/certgen:v1",
    ]


def pod(image: str, pulled: str = "") -> HamiPod:
    return HamiPod("p", "hami-scheduler", "n", "Running", True, {"c": image}, pulled={"c": pulled})


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        (f"{HAMI}@{ONE}", ""),
        ("projecthami/hami:v2.9.0", f"docker.io/projecthami/hami@{ONE}"),
        (HAMI, f"docker.io/projecthami/hami@{TWO}"),  # one architecture's manifest
        (HAMI, ""),  # not pulled yet
    ],
)
def test_containers_as_locked(image: str, pulled: str) -> None:
    assert list(locked_images.differing([pod(image, pulled)], {HAMI: LOCKED}, "the lock")) == []


@pytest.mark.parametrize(
    ("image", "pulled"), [(f"{HAMI}@{ARM}", ""), (HAMI, f"docker.io/projecthami/hami@{ARM}")]
)
def test_containers_that_run_another_image(image: str, pulled: str) -> None:
    (told,) = locked_images.differing([pod(image, pulled)], {HAMI: LOCKED}, "the lock")
    assert f"{HAMI} is {ARM}" in told
    assert f"the lock says {ONE}: refused" in told


def test_container_whose_image_is_not_locked() -> None:
    (told,) = locked_images.differing([pod("mine/hami:v1")], {HAMI: LOCKED}, "the lock")
    assert "p runs docker.io/mine/hami:v1, which the lock does not have" in told


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lock:
    lock = Lock(images={HAMI: LOCKED, SCHEDULER: LOCKED, PROBE: LOCKED})
    (tmp_path / "lock.yaml").write_text(lockfile.render(lock))
    monkeypatch.setenv("GPU_LOCK", str(tmp_path / "lock.yaml"))
    return lock


def test_images_of_the_settings_must_be_locked(lock: Lock) -> None:
    assert check({"verify_image": "python:3.12-slim"}).probe_image == PROBE
    with pytest.raises(SettingsError) as told:
        check({"verify_probe": "nvcc", "hami_scheduler_registry": "r.inside"})
    text = str(told.value)
    assert (
        "verify_nvcc_image: docker.io/nvidia/cuda:12.4.1-devel-ubuntu22.04 is not among the images of" in text
    )
    assert "hami_scheduler_repository: r.inside/kube-scheduler:v1.36.2 is not among" in text
    assert "lock again" in text


def test_image_by_digest() -> None:
    where = Origin(Lock(images={PROBE: LOCKED}))
    assert where.image(PROBE) == f"{PROBE}@{ONE}"
    assert where.image(HAMI) == HAMI
    assert Origin().image(PROBE) == PROBE


@pytest.mark.parametrize(
    ("version", "does"),
    [
        ("v1.31.14+k3s1", False),
        ("v1.32.10+k3s1", False),
        ("v1.32.11+k3s1", True),
        ("v1.33.6+k3s1", False),
        ("v1.34.3+k3s1", True),
        ("v1.36.0+k3s1", True),
    ],
)
def test_k3s_that_finds_imported_images_by_digest(version: str, does: bool) -> None:
    assert releases.imports_by_digest(version) is does


def test_archives_of_a_mirror_that_may_be_a_bundle(lock: Lock) -> None:
    where = Origin(lock)

    def names(**data: str) -> list[str]:
        return [one.url for one in archives.wanted(check(data), where, "amd64")]

    assert names() == []
    assert f"https://mm/x/images/amd64/docker.io_projecthami_hami_v2.9.0-{'a' * 12}.tar" in names(
        mirror="https://mm/x/"
    )
    assert archives.wanted(check({"mirror": "https://mm"}), where, "arm64") == []  # the lock has none for it
    assert archives.wanted(check({"mirror": "https://mm"}), Origin(), "amd64") == []
