"""Our values in HAMi's own chart, rendered by the real helm.

HAMI_CHART=path/to/charts/hami pytest tests/unit -k real_chart      (a folder or a .tgz; HELM names another helm)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_k3s import chart, releases
from hami_k3s.facts.hami import WEBHOOK_NAME, fullname
from hami_k3s.releases.reference import full
from hami_k3s.settings import Settings

CHART = os.environ.get("HAMI_CHART", "")
HELM = (
    os.environ.get("HELM")
    or shutil.which("helm")
    or shutil.which("/root/.cache/hami-k3s-rehearsal/bin/helm")
    or ""
)
pytestmark = [
    pytest.mark.skipif(
        not CHART, reason="HAMI_CHART names no chart (Project-HAMi/HAMi, charts/hami, or its .tgz)"
    ),
    pytest.mark.skipif(not HELM, reason="there is no helm; HELM names one"),
]
SERVER = "v1.36.2+k3s1"


@cache
def version() -> str:
    """The chart's own, from Chart.yaml."""
    path = Path(CHART)
    if path.is_dir():
        text = (path / "Chart.yaml").read_bytes()
    else:
        with tarfile.open(path) as archive:
            found = archive.extractfile("hami/Chart.yaml")
            assert found is not None
            text = found.read()
    return str(yaml.safe_load(text)["version"])


def of_user(user: str) -> Settings:
    return Settings(
        hami_chart_version=version(), hami_chart_sha256="0" * 64, hami_values=yaml.safe_load(user)
    )


def named(user: str = "{}") -> list[str]:
    """Images by our own reading of the chart's values."""
    shown = subprocess.run([HELM, "show", "values", CHART], capture_output=True, check=True, timeout=60)
    wanted = chart.values(of_user(user), SERVER, 1, 1)
    return chart.images(version(), chart.merged(yaml.safe_load(shown.stdout), wanted))


@cache
def objects(
    nodes: int,
    release: str = "hami",
    user: str = "{}",
    server: str = SERVER,
    kube: str = "v1.36.2",
    locked: bool = False,
) -> list[dict[str, Any]]:
    digests = {name: f"sha256:{number:064x}" for number, name in enumerate(named(user))} if locked else {}
    values = chart.values(of_user(user), server, nodes, nodes, digests)
    done = subprocess.run(
        [
            HELM,
            "template",
            release,
            CHART,
            "--namespace",
            "kube-system",
            "--kube-version",
            kube,
            "--values",
            "-",
        ],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def of_kind(kind: str, **arguments: Any) -> list[dict[str, Any]]:
    return [item for item in objects(**arguments) if item["kind"] == kind]


def scheduler(**arguments: Any) -> dict[str, Any]:
    (deployment,) = of_kind("Deployment", **arguments)
    return deployment["spec"]["template"]  # type: ignore[no-any-return]


def images(**arguments: Any) -> dict[str, str]:
    """Container -> image, of every workload."""
    found = {}
    for item in objects(**arguments):
        spec = item.get("spec", {}).get("template", {}).get("spec", {})
        for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
            found[f"{item['metadata']['name']}/{container['name']}"] = container["image"]
    return found


@pytest.mark.parametrize("nodes", [1, 3])
def test_kube_scheduler_is_the_servers_version(nodes: int) -> None:
    containers = {one["name"]: one for one in scheduler(nodes=nodes)["spec"]["containers"]}
    assert containers["kube-scheduler"]["image"] == "registry.k8s.io/kube-scheduler:v1.36.2"


def test_the_tag_is_ours_and_not_the_charts_own_guess() -> None:
    """Charts fall back to the version that helm believes the cluster has: it must not be that."""
    found = images(nodes=1, server="v1.34.7+k3s2", kube="v1.36.2")
    assert "registry.k8s.io/kube-scheduler:v1.34.7" in found.values()


def test_every_image_is_a_whole_reference() -> None:
    """The tag under the other key of this chart gives `map[...]`, or no tag at all."""
    found = images(nodes=1)
    assert len(found) >= 5
    for name, image in found.items():
        assert "map[" not in image, name
        assert image.rpartition("/")[2].count(":") == 1, f"{name}: {image}"
        assert not image.endswith(":"), f"{name}: {image}"


@pytest.mark.parametrize("user", ["{}", "{global: {imageRegistry: registry.inside}}"])
def test_our_reading_of_the_images_is_helms(user: str) -> None:
    if user != "{}" and releases.numbers(version()) < (2, 7):
        pytest.skip("this chart has no global registry")
    assert set(named(user)) == {full(image) for image in images(nodes=1, user=user).values()}


def test_every_image_is_named_by_its_locked_digest() -> None:
    digests = {name: f"sha256:{number:064x}" for number, name in enumerate(named())}
    found = images(nodes=1, locked=True)
    assert len(found) >= 5
    for name, image in found.items():
        assert image.endswith(f"@{digests[full(image)]}"), f"{name}: {image}"


def test_nothing_is_on_the_machines_public_address() -> None:
    services = of_kind("Service", nodes=1)
    assert len(services) == 2
    for service in services:
        assert service["spec"]["type"] == "ClusterIP"
        assert all("nodePort" not in port for port in service["spec"]["ports"])


def test_one_node_can_be_upgraded() -> None:
    """Two schedulers must fit beside each other while one replaces the other."""
    template = scheduler(nodes=1)
    required = (
        template["spec"]
        .get("affinity", {})
        .get("podAntiAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )
    assert required == []
    if releases.rolling_deadlock(version()):
        text = yaml.safe_dump(objects(nodes=1))
        assert "--leader-elect=false" in text
        assert "--leader-elect=true" not in text
        assert "leaderElect: true" not in text


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_several_servers_can_be_upgraded(nodes: int) -> None:
    """One scheduler more than usual must find a node, and each of them must get ready without leading."""
    (deployment,) = of_kind("Deployment", nodes=nodes)
    required = "requiredDuringSchedulingIgnoredDuringExecution" in yaml.safe_dump(deployment)
    replicas = deployment["spec"]["replicas"]
    assert replicas + 1 <= nodes or not required
    several = releases.several_schedulers(version())
    assert (replicas > 1) is (several and (nodes > 2 or not releases.rolling_deadlock(version())))
    if replicas > 1:
        assert "--leader-elect=true" in yaml.safe_dump(deployment)


def test_plugin_wants_the_label_that_we_set() -> None:
    (daemonset,) = of_kind("DaemonSet", nodes=1)
    assert daemonset["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "on"}


@pytest.mark.parametrize("release", ["hami", "gpu"])
def test_names_that_our_facts_look_for(release: str) -> None:
    where = {"nodes": 1, "release": release}
    name = fullname(release)
    labels = [
        item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for kind in ("Deployment", "DaemonSet")
        for item in of_kind(kind, **where)
    ]
    assert labels == ["hami-scheduler", "hami-device-plugin"]
    assert f"{name}-scheduler" in [service["metadata"]["name"] for service in of_kind("Service", **where)]
    hooks = [hook for item in of_kind("MutatingWebhookConfiguration", **where) for hook in item["webhooks"]]
    assert [(hook["name"], hook["clientConfig"]["service"]["name"]) for hook in hooks] == [
        (WEBHOOK_NAME, f"{name}-scheduler")
    ]
    plugin = of_kind("DaemonSet", **where)[0]["spec"]["template"]["spec"]["containers"]
    assert "device-plugin" in [container["name"] for container in plugin]  # its log is read
    text = yaml.safe_dump(objects(**where))
    assert f"{name}-scheduler-tls" in text  # reset removes it


def test_user_values_reach_the_chart() -> None:
    user = "{devicePlugin: {deviceSplitCount: 4}, scheduler: {service: {type: NodePort}}}"
    services = {
        item["metadata"]["name"]: item["spec"]["type"] for item in of_kind("Service", nodes=1, user=user)
    }
    assert services["hami-scheduler"] == "NodePort"
    config = "\n".join("\n".join(item["data"].values()) for item in of_kind("ConfigMap", nodes=1, user=user))
    assert re.search(r"devicesplitcount\W+4\b", config, re.IGNORECASE)
