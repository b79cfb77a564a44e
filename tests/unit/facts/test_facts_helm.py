"""A Helm release in the JSON of both majors, and what a reset would remove."""

from typing import Any

import pytest

from hami_k3s.facts.helm import Release, ReleaseState, parse, parse_server_version
from hami_k3s.facts.reset import Reset
from hami_k3s.facts.reset import parse as parse_reset
from tests.unit.facts.answers import answered
from tests.unit.facts.host_tools import Bin

LISTED = {
    "name": "hami",
    "namespace": "kube-system",
    "revision": "3",
    "updated": "2026-07-07 10:25:15.123456789 +0000 UTC",
    "status": "deployed",
    "chart": "hami-2.9.0",
    "app_version": "2.9.0",
}
METADATA = {"name": "hami", "chart": "hami", "version": "2.9.0", "namespace": "kube-system", "revision": 3}
HISTORY = [
    {"revision": 1, "status": "superseded", "chart": "hami-2.8.0"},
    {"revision": 2, "status": "failed", "chart": "hami-2.9.0"},
    {"revision": 3, "status": "deployed", "chart": "hami-2.9.0"},
]
SERVER = {"clientVersion": {"gitVersion": "v1.36.2+k3s1"}, "serverVersion": {"gitVersion": "v1.36.2+k3s1"}}
PROBES = {
    "helm": "v4.2.3",
    "list": [LISTED],
    "metadata": METADATA,
    "values": {"scheduler": {"leaderElect": False}},
    "history": HISTORY,
    "now": "1783419975",
    "working": "",
    "cut_off": ("", 1),
    "version": SERVER,
    "nodes": "node/gpu-1\nnode/gpu-2",
}


def release(**changes: Any) -> ReleaseState:
    return parse(answered({**PROBES, **changes}))


def test_deployed() -> None:
    now = release()
    assert (now.status, now.revision, now.chart, now.chart_version) == ("deployed", 3, "hami", "2.9.0")
    assert now.values == {"scheduler": {"leaderElect": False}}
    assert (now.good_revision, now.helm_version, now.server_version, now.nodes) == (
        3,
        "v4.2.3",
        "v1.36.2+k3s1",
        2,
    )
    assert now.age_s == 60
    assert not now.working
    assert not now.cut_off


def test_helm_3_says_null_for_no_values() -> None:
    assert release(values="null", helm="v3.19.0").values == {}


def test_helm_3_warns_on_stderr_of_a_readable_kubeconfig() -> None:
    """The lab's mode, 644, makes helm 3 print this before its answer; both come in one text."""
    warning = "WARNING: Kubernetes configuration file is group-readable. This is insecure. Location: /etc/rancher/k3s/k3s.yaml"
    assert release(list=f"{warning}\n[]").status == "absent"


def test_no_release() -> None:
    now = release(list=[], metadata=("", 1), values=("", 1), history=("", 1))
    assert (now.status, now.revision, now.values, now.good_revision) == ("absent", 0, {}, None)
    assert now.server_version == "v1.36.2+k3s1"


def test_the_newest_of_several_revisions_counts_as_a_number() -> None:
    nine, ten = {**LISTED, "revision": "9"}, {**LISTED, "revision": "10", "status": "pending-upgrade"}
    now = release(list=[ten, nine], history=HISTORY[:2])
    assert (now.status, now.revision, now.good_revision) == ("pending-upgrade", 10, 1)


def test_no_good_revision() -> None:
    only = [{"revision": 1, "status": "pending-install"}]
    assert release(list=[{**LISTED, "status": "pending-install"}], history=only).good_revision is None


@pytest.mark.parametrize(
    "answer",
    [
        ("Error: kubernetes cluster unreachable: connection refused", 1),
        ("", 127),
        "<html>",
        "[not json",
    ],
)
def test_unknown(answer: object) -> None:
    now = release(list=answer)
    assert now.status is None
    assert now.error


@pytest.mark.parametrize("updated", ["", "yesterday", "2026-07-07"])
def test_age_of_an_unknown_moment(updated: str) -> None:
    assert release(list=[{**LISTED, "updated": updated}]).age_s is None
    assert release(now="").age_s is None


def test_age_in_another_time_zone() -> None:
    assert release(list=[{**LISTED, "updated": "2026-07-07 12:25:15.1 +0200 CEST"}]).age_s == 60


def test_helm_at_work_and_helm_cut_off() -> None:
    assert release(working="/proc/77/comm").working
    assert release(cut_off="yes").cut_off


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"serverVersion": null}', '{"serverVersion": {}}', "Unable"]
)
def test_server_that_did_not_answer(text: str) -> None:
    assert parse_server_version(text) is None


def test_through_the_real_script(host: Bin) -> None:
    """Paths, names and formats arrive at helm and kubectl as they should, whatever the shell makes of quotes."""
    helm = host.put(
        "helm 'x",
        """[ "$KUBECONFIG" = /etc/rancher/k3s/k3s.yaml ] || exit 8
case "$1" in
version) [ "$3" = '{{.Version}}' ] && echo v4.2.3 ;;
list) [ "$7" = '^hami$' ] && echo warning >&2 && echo '[{"name":"hami","revision":"1","status":"failed","updated":""}]' ;;
get) [ "$2" = metadata ] && echo '{"chart":"hami","version":"2.9.0"}' || echo '{"a":1}' ;;
history) echo '[{"revision":1,"status":"failed"}]' ;;
esac""",
    )
    host.put(
        "k3s",
        """[ "$1" = kubectl ] || exit 8
case "$3" in version) echo '{"serverVersion":{"gitVersion":"v1.36.2+k3s1"}}' ;; get) echo node/gpu-1 ;; esac""",
    )
    now = host.read(Release, helm=helm, release="hami", namespace="kube-system")
    assert (now.helm_version, now.status, now.chart_version, now.values) == (
        "v4.2.3",
        "failed",
        "2.9.0",
        {"a": 1},
    )
    # `working` looks at the processes of this machine: somebody's helm may really be at work
    assert (now.server_version, now.nodes) == ("v1.36.2+k3s1", 1)


NODE = {
    "kind": "Node",
    "metadata": {
        "name": "gpu-1",
        "labels": {"gpu": "on"},
        "annotations": {"hami.io/node-nvidia-register": "[]", "hami.io/node-handshake": "x", "other": "y"},
    },
}


def test_reset_of_everything() -> None:
    left = parse_reset(
        answered(
            {
                "k3s": "/usr/local/bin/k3s-uninstall.sh",
                "node": NODE,
                "release": [{"name": "hami", "status": "deployed"}],
                "objects": "secret/hami-scheduler-tls\nlease.coordination.k8s.io/hami-scheduler",
                "spaces": "namespace/hami-k3s-verify-0a1b2c3d",
            }
        )
    )
    assert left.k3s
    assert left.api
    assert left.hami == (
        "namespace/hami-k3s-verify-0a1b2c3d",
        "secret/hami-scheduler-tls",
        "lease.coordination.k8s.io/hami-scheduler",
        "release hami",
        "annotation hami.io/node-nvidia-register",
        "annotation hami.io/node-handshake",
        "label gpu",
    )


def test_reset_of_nothing() -> None:
    bare = {"kind": "Node", "metadata": {"name": "gpu-1"}}
    left = parse_reset(answered({"node": bare, "release": [], "objects": "", "spaces": ""}))
    assert (left.k3s, left.api, left.hami) == (False, True, ())
    kept = parse_reset(answered({"node": bare, "release": [{"name": "hami", "status": "uninstalled"}]}))
    assert kept.hami == ()  # helm keeps its history, nothing runs


def test_reset_of_a_k3s_that_does_not_answer() -> None:
    left = parse_reset(
        answered({"k3s": "/usr/local/bin/k3s-uninstall.sh", "node": ("", 1), "release": ("x", 1)})
    )
    assert (left.k3s, left.api, left.hami) == (True, False, ())


def test_reset_through_the_real_script(host: Bin) -> None:
    host.put(
        "k3s",
        """case "$*" in *'get node '*) echo '{"kind":"Node","metadata":{"name":"n","labels":{"gpu":"on"}}}' ;;
*'get namespaces -l a=b'*) echo namespace/x ;; *secret/hami-scheduler-tls*) echo secret/hami-scheduler-tls ;; esac""",
    )
    helm = host.put("helm", "echo '[]'")
    left = host.read(Reset, helm=helm, release="hami", namespace="kube-system", owner="a=b")
    assert left.hami == ("namespace/x", "secret/hami-scheduler-tls", "label gpu")
