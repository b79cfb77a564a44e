"""A bundle that lies is refused before a host is touched: names that lead out of it, links, sizes, a manifest that is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hami_k3s.releases import bundle, lockfile, origin
from hami_k3s.settings import Settings, SettingsError, check

ENTRY = {"sha256": "a" * 64, "size": 4, "for": "hami"}


def make(folder: Path, name: str = "HAMi/x.tgz", **changes: object) -> Path:
    (folder / "HAMi").mkdir(parents=True)
    (folder / "HAMi/x.tgz").write_bytes(b"four")
    (folder / "releases.lock.yaml").write_text(lockfile.render(lockfile.Lock()))
    (folder / "manifest.yaml").write_text(
        yaml.safe_dump({"format": 1, "files": {name: {**ENTRY, **changes}}})
    )
    return folder


def test_bundle(tmp_path: Path) -> None:
    found = bundle.load(make(tmp_path / "b"))
    assert found.of("hami", "amd64") == found.of("hami", "arm64") == ["HAMi/x.tgz"]
    assert found.of("images", "amd64") == []


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "HAMi/../../x",
        "/etc/passwd",
        "HAMi//x.tgz",
        "./HAMi/x.tgz",
        "..",
        "",
        "HAMi/x\n",
        "HAMi\\..\\x",
        "HAMi/..",
    ],
)
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(bundle.BundleError, match="leads out of the bundle: refused"):
        bundle.load(make(tmp_path / "b", name))


@pytest.mark.parametrize("link", ["HAMi/x.tgz", "HAMi"])
def test_links_that_lead_out(tmp_path: Path, link: str) -> None:
    folder = make(tmp_path / "b")
    outside = tmp_path / "outside"
    (folder / link).rename(outside)
    (folder / link).symlink_to(outside)
    with pytest.raises(bundle.BundleError, match="a link that leads out of the bundle: refused"):
        bundle.load(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 5}, "is 4 bytes, manifest.yaml says 5 bytes: copied incompletely"),
        ({"sha256": "x"}, "sha256"),
        ({"for": "other"}, "for"),
        ({"mode": "4755"}, "mode"),
    ],
)
def test_manifests_that_are_wrong(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(bundle.BundleError, match=words):
        bundle.load(make(tmp_path / "b", **changes))


def test_file_that_is_missing(tmp_path: Path) -> None:
    folder = make(tmp_path / "b")
    (folder / "HAMi/x.tgz").unlink()
    with pytest.raises(bundle.BundleError, match="is not there"):
        bundle.load(folder)


def test_no_bundle_is_a_problem_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is not a bundle .*releases bundle DIR"):
        check({"source": "bundle", "bundle": str(tmp_path)})


def test_where_a_bundle_has_what_a_url_names() -> None:
    base = Settings().k3s_release_url
    url = f"{base}/v1.36.2%2Bk3s1/k3s"
    assert origin.in_bundle("k3s_release_url", url, base) == "k3s-io/k3s/releases/download/v1.36.2+k3s1/k3s"
    assert (
        origin.in_bundle("helm_release_url", "https://get.helm.sh/helm.tgz", "https://get.helm.sh")
        == "helm.tgz"
    )
