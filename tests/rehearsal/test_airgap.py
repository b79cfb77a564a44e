"""One lock says what is installed: from a mirror that changes its mind, and on a node with no route but SSH."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal import access
from tests.rehearsal import control_side, mirror_runs

pytestmark = pytest.mark.rehearsal
SUM = re.compile(r"[0-9a-f]{64}")
# No way to the internet, nor a name for the mirror. What is left is the network that SSH comes from, and a default route
# that leads nowhere: k3s wants one.
OFFLINE = "ip route del default && sed -i /mirror/d /etc/hosts"
NOWHERE = "ip route add default via 10.77.255.254"


@dataclass(frozen=True)
class Place:
    """Two nodes, a folder with `lock.yaml`, and the fleet file that the lock was made with."""

    folder: Path
    fleet: Path
    open_node: Any
    cut_node: Any

    @property
    def lock(self) -> str:
        return str(self.folder / "lock.yaml")

    def open_node_settings(self) -> list[str]:
        return list(yaml.safe_load(self.open_node.fleet.read_text())["settings"])

    def releases(self, *words: str) -> Any:
        return control_side.releases(self.open_node, self.folder, self.fleet, *words)


@pytest.fixture(scope="module")
def place(rehearsal: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("locked")
    with rehearsal("gap", nodes=2) as node:
        other = type(node)(node.state, node.names[1])
        file = control_side.fleet(node, folder / "fleet.yaml")
        made = Place(folder, file, node, other)
        done = made.releases("lock", "--k3s", "stable")
        assert done.returncode == 0, done.stdout
        assert "+k3s:" in done.stdout
        yield made


def test_mirror_lock_twice_changes_nothing(place: Place) -> None:
    before = Path(place.lock).read_bytes()
    done = place.releases("lock")
    assert done.returncode == 0, done.stdout
    assert "no change" in done.stdout
    assert Path(place.lock).read_bytes() == before


def test_mirror_check(place: Place) -> None:
    done = place.releases("check")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("every sum is upstream's") == 8


def test_mirror_check_says_what_is_outdated(place: Place, tmp_path: Path) -> None:
    for words in (("lock", "--k3s", "v1.35", "--toolkit", "1.18.2", "--no-images"), ("check",)):
        done = control_side.releases(place.open_node, tmp_path, place.fleet, *words)
        assert done.returncode == (0 if words[0] == "lock" else 3), (
            done.stdout
        )  # 3: the images are not locked
    assert "outdated     k3s v1.35.6+k3s1: v1.36.2+k3s1 is out" in done.stdout
    assert "outdated     toolkit 1.18.2: 1.19.1 is out" in done.stdout


def test_mirror_check_says_what_a_changed_mirror_has(place: Place) -> None:
    with place.open_node.broken("republished"):
        done = place.releases("check")
    assert done.returncode == 1, done.stdout
    assert len(set(SUM.findall(done.stdout))) == 2, done.stdout
    with place.open_node.broken("rollback"):
        done = place.releases("check")
    assert done.returncode == 1
    assert "changed      k3s.files.amd64.sha256: the lock says" in done.stdout


def test_mirror_that_publishes_the_chart_again_is_refused_with_both_sums(
    place: Place, tmp_path: Path
) -> None:
    """Of the lock alone: the fleet file says nothing of the chart's sum."""
    fleet = control_side.fleet(place.open_node, tmp_path / "fleet.yaml", ("hami_chart_sha256",))
    with place.open_node.broken("republished"):
        done = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py", GPU_LOCK=place.lock)
    assert done.returncode != 0
    assert f"--> Releases locked by {place.lock}: " in done.stdout
    locked = yaml.safe_load(Path(place.lock).read_text())["hami"]["sha256"]
    found = re.search(rf"hami 2.9.0 from \S+ is ({SUM.pattern})", done.stdout)
    assert found is not None, done.stdout[-3000:]
    assert found[1] != locked
    assert f"expected {locked}: refused" in done.stdout
    assert "hami" not in place.open_node.kubectl("get pods -A --no-headers")


SCHEDULER = "registry.k8s.io/kube-scheduler:v1.36.2"
HAMI = "docker.io/projecthami/hami:v2.9.0"
IMAGES = "get pods -A -o jsonpath='{range .items[*]}{range .spec.containers[*]}{.image}{\"\\n\"}{end}{end}'"


def locked_digest(place: Place, name: str) -> str:
    return str(yaml.safe_load(Path(place.lock).read_text())["images"][name]["digest"])


def test_mirror_with_another_image_under_the_tag_is_refused(place: Place, tmp_path: Path) -> None:
    """By digest the mirror does not have it: nothing of the other one runs. `check` says both sums."""
    node = place.open_node
    fleet = control_side.fleet(node, tmp_path / "fleet.yaml", ("hami_chart_sha256",), hami_ready_timeout=10)
    with node.broken("retagged"):
        done = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py", GPU_LOCK=place.lock)
        checked = place.releases("check")
    wanted = locked_digest(place, HAMI)
    assert done.returncode != 0
    assert f"{wanted}: not found" in done.stdout, done.stdout[-3000:]
    assert "`python -m hami_k3s.releases check` says both sums" in done.stdout
    found = re.search(
        rf"{re.escape(HAMI)}.digest: the lock says {wanted}, upstream says (sha256:\w+)", checked.stdout
    )
    assert found is not None, checked.stdout
    assert found[1] not in node.kubectl("get pods -A -o yaml")


def test_mirror_with_another_image_under_a_tag_of_the_users_own(place: Place, tmp_path: Path) -> None:
    """A tag in hami_values wins over the locked digest; what was pulled is told by both sums."""
    node = place.open_node
    own = {"global": {"imageTag": "v2.9.0"}}
    fleet = control_side.fleet(node, tmp_path / "fleet.yaml", ("hami_chart_sha256",), hami_values=own)
    with node.broken("retagged"):
        done = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py", GPU_LOCK=place.lock)
    assert done.returncode != 0
    found = re.search(rf"{re.escape(HAMI)} is (sha256:\w+)", done.stdout)
    assert found is not None, done.stdout[-3000:]
    assert found[1] != locked_digest(place, HAMI)
    assert f"says {locked_digest(place, HAMI)}: refused" in done.stdout


def test_mirror_rollback_is_refused_by_the_lock(place: Place, tmp_path: Path) -> None:
    """The mirror's own sums agree with the older file; the lock's do not."""
    fleet = control_side.fleet(place.open_node, tmp_path / "fleet.yaml", ("hami_chart_sha256",))
    place.open_node.run("rm -rf /usr/local/lib/hami-k3s/helm*")
    with place.open_node.broken("rollback"):
        done = mirror_runs.run(tmp_path, fleet, "helm", GPU_LOCK=place.lock)
    assert done.returncode != 0
    locked = yaml.safe_load(Path(place.lock).read_text())["helm"]["files"]["amd64"]["sha256"]
    assert f"{place.lock} says   {locked}" in done.stdout


def test_airgap_bundle_asks_for_everything_once(place: Place, tmp_path: Path) -> None:
    """And a second one for nothing that is in the cache."""
    bundle, files = place.folder / "bundle", r"\.(deb|tgz|tar\.gz|tar\.zst)$|/k3s$|/blobs/"
    for folder, some in ((bundle, True), (tmp_path / "again", False)):
        before = len(place.open_node.requests())
        made = place.releases("bundle", str(folder))
        assert made.returncode == 0, made.stdout
        asked = [line.split()[2] for line in place.open_node.requests()[before:] if " GET " in line]
        assert sorted(set(asked)) == sorted(asked)
        assert bool([path for path in asked if re.search(files, path)]) is some, asked
    trees = [
        {str(f.relative_to(top)): f.read_bytes() for f in top.rglob("*") if f.is_file()}
        for top in (bundle, folder)
    ]
    assert trees[0] == trees[1]


CUT = """until size=$(cat /var/lib/hami-k3s/bundle/.incoming/* 2>/dev/null | wc -c) && [ "$size" -gt 1000000 ]; do :; done
pkill -x sftp-server"""


def test_airgap_copy_that_is_cut_starts_again(place: Place, tmp_path: Path) -> None:
    """SSH dies in the middle of helm's archive: nothing of it is taken for helm, and the next run is whole."""
    bundle = str(place.folder / "bundle")
    fleet = control_side.fleet(place.cut_node, tmp_path / "fleet.yaml", source="bundle", bundle=bundle)
    cutter = subprocess.Popen([*access.ssh_command(place.cut_node.state, place.cut_node.name, "root"), CUT])
    try:
        done = mirror_runs.run(tmp_path, fleet, "helm")
        assert cutter.wait(10) == 0
    finally:
        cutter.kill()
    assert done.returncode != 0
    assert "linux-amd64.tar.gz could not be sent" in done.stdout, done.stdout[-2000:]
    assert "Run the same command again" in done.stdout
    assert place.cut_node.run("ls /usr/local/lib/hami-k3s | grep helm").stdout == ""
    again = mirror_runs.run(tmp_path, fleet, "helm")
    assert again.returncode == 0, again.stdout[-2000:]
    assert place.cut_node.run("ls /var/lib/hami-k3s/bundle/.incoming").stdout == ""


def test_airgap(place: Place, tmp_path: Path) -> None:
    """Bundle, converge and verify on a node that only SSH reaches; a second run sends nothing."""
    bundle = place.folder / "bundle"
    fleet = control_side.fleet(
        place.cut_node, tmp_path / "fleet.yaml", ("hami_chart_sha256",), source="bundle", bundle=str(bundle)
    )
    assert place.cut_node.run(OFFLINE).ok
    refused = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py")
    assert "no-default-route: /proc/net/route has none" in refused.stdout, refused.stdout[-2000:]
    assert place.cut_node.run(NOWHERE).ok
    asked = len(place.open_node.requests())
    with control_side.traffic(place.cut_node) as seen:
        first = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py")
        assert first.returncode == 0, first.stdout[-4000:]
        second = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py")
        proof = mirror_runs.pyinfra(fleet, "deploys/verify.py", data=(f"report_folder={tmp_path}",))
    assert proof.returncode == 0, proof.stdout[-6000:]
    assert not re.search(r"^ *[a-z-]+ +(fail|error) ", proof.stdout, re.MULTILINE)
    assert second.returncode == 0
    assert "sending" not in second.stdout
    totals = next(line for line in second.stdout.splitlines() if "Grand total" in line).split()
    assert totals[2] == totals[-1]  # every operation: no change
    assert seen["other"] == {}
    assert seen["ssh"] > 1000
    assert len(place.open_node.requests()) == asked
    images = [one for one in place.cut_node.kubectl(IMAGES).split() if "rancher" not in one]
    assert len(images) == 4
    assert all("@sha256:" in one for one in images), images


def test_airgap_bundle_that_was_changed_is_refused_where_it_arrives(place: Place, tmp_path: Path) -> None:
    """Same size, another byte: the host keeps nothing of it."""
    bundle = place.folder / "bundle"
    chart = bundle / "HAMi/hami-2.9.0.tgz"
    right = chart.read_bytes()
    fleet = control_side.fleet(
        place.cut_node, tmp_path / "fleet.yaml", ("hami_chart_sha256",), source="bundle", bundle=str(bundle)
    )
    access.ssh(
        place.cut_node.state,
        place.cut_node.name,
        ["rm -rf /var/lib/hami-k3s/bundle/HAMi /usr/local/lib/hami-k3s/charts"],
    )
    chart.unlink()
    chart.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    try:
        done = mirror_runs.run(tmp_path, fleet, "chart", data=('hami_values={"a":1}',))
    finally:
        chart.write_bytes(right)
    assert done.returncode != 0
    assert len(set(SUM.findall(done.stdout))) >= 2, done.stdout[-2000:]
    assert "refused. Make the bundle again" in done.stdout
    assert place.cut_node.run("find /var/lib/hami-k3s -name '*.tgz' -o -path '*.incoming/*'").stdout == ""


@pytest.mark.parametrize("lie", ["../../etc/cron.d/x", "HAMi/link"])
def test_mirror_bundle_that_leads_out(place: Place, tmp_path: Path, lie: str) -> None:
    """Refused before a host is contacted."""
    bundle = tmp_path / "bundle"
    shutil.copytree(place.folder / "bundle", bundle)
    (bundle / "HAMi/link").symlink_to("/etc/hostname")
    manifest = yaml.safe_load((bundle / "manifest.yaml").read_text())
    manifest["files"][lie] = manifest["files"]["HAMi/index.yaml"]
    (bundle / "manifest.yaml").write_text(yaml.safe_dump(manifest))
    fleet = control_side.fleet(place.cut_node, tmp_path / "fleet.yaml", source="bundle", bundle=str(bundle))
    done = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py", GPU_LOCK=place.lock)
    assert done.returncode != 0
    assert "leads out of the bundle: refused" in done.stdout
    assert "Connecting to hosts" not in done.stdout


def test_mirror_is_any_web_server_with_a_bundle(place: Place, tmp_path: Path) -> None:
    """Only `mirror:` is set; every source follows from it."""
    served = place.open_node.state.folder / "www/right/served"
    served.symlink_to(place.folder / "bundle")
    drop = tuple(
        name for name in place.open_node_settings() if name.endswith(("_url", "_repository", "_sha256"))
    )
    fleet = control_side.fleet(
        place.open_node, tmp_path / "fleet.yaml", drop, mirror="https://mirror.rehearsal/served"
    )
    place.open_node.run(
        "rm -rf /usr/local/lib/hami-k3s/helm* /usr/local/lib/hami-k3s/k3s-v* /usr/local/lib/hami-k3s/charts"
    )
    before = len(place.open_node.requests())
    (archive,) = (place.folder / "bundle/images/amd64").glob("*kube-scheduler*")
    right = archive.read_bytes()
    other = f"sha256:{'0' * 64}".encode()
    archive.write_bytes(right.replace(locked_digest(place, SCHEDULER).encode(), other))
    refused = mirror_runs.run(tmp_path, fleet, "k3s", GPU_LOCK=place.lock)
    archive.write_bytes(right)
    assert refused.returncode != 0
    assert f"is another image: {other.decode()}" in refused.stdout, refused.stdout[-3000:]
    assert f"{place.lock} says {SCHEDULER} {locked_digest(place, SCHEDULER)}" in refused.stdout
    place.open_node.new_handshake()
    done = mirror_runs.pyinfra(fleet, "deploys/gpu_node.py", GPU_LOCK=place.lock)
    assert done.returncode == 0, done.stdout[-3000:]
    asked = [line.split()[2] for line in place.open_node.requests() if "/served/" in line]
    for part in (
        "libnvidia-container/stable/deb/amd64/InRelease",
        "v1.36.2%2Bk3s1/k3s",
        "helm-v4.2.3",
        "hami-2.9.0.tgz",
        "/images/amd64/docker.io_projecthami_hami_v2.9.0-",
        "/images/amd64/docker.io_library_python_3.12-slim-",
        "k3s-airgap-images-amd64.tar.zst",
    ):
        assert any(part in path for path in asked), asked
    assert not [line for line in place.open_node.requests()[before:] if "/v2/" in line]
