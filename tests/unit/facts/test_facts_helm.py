"""A Helm release as helm stores it."""

import json
from base64 import b64encode
from gzip import compress
from typing import Any

import pytest

from hami_k3s.facts.helm import Release, ReleaseState, parse
from tests.unit.facts.answers import answered
from tests.unit.facts.api_server import Api
from tests.unit.facts.host_tools import Bin

DEPLOYED: dict[str, Any] = {
    "name": "hami",
    "namespace": "kube-system",
    "version": 3,
    "info": {"status": "deployed", "last_deployed": "2026-07-07T10:25:15.123456789Z"},
    "chart": {"metadata": {"name": "hami", "version": "2.9.0"}},
    "config": {"scheduler": {"leaderElect": False}},
}


def stored(one: dict[str, Any]) -> dict[str, Any]:
    """As helm keeps a revision in its Secret, and the API shows it."""
    release = b64encode(b64encode(compress(json.dumps(one).encode()))).decode()
    labels = {
        "owner": "helm",
        "name": "hami",
        "status": one["info"]["status"],
        "version": str(one["version"]),
    }
    return {
        "metadata": {"name": f"sh.helm.release.v1.hami.v{one['version']}", "labels": labels},
        "data": {"release": release},
    }


def revision(number: int, status: str, **changes: Any) -> dict[str, Any]:
    return stored({**DEPLOYED, "version": number, "info": {**DEPLOYED["info"], "status": status}, **changes})


def listed(*objects: Any) -> dict[str, Any]:
    return {"kind": "List", "items": list(objects)}


SERVER = {"metadata": {"name": "gpu-1", "labels": {"node-role.kubernetes.io/control-plane": "true"}}}
PROBES = {
    "secrets": listed(stored(DEPLOYED)),
    "now": "1783419975",
    "working": "",
    "cut_off": ("", 1),
    "version": {"gitVersion": "v1.36.2+k3s1"},
    "nodes": listed(SERVER, {"metadata": {"name": "gpu-2"}}),
}


def release(**changes: Any) -> ReleaseState:
    return parse(answered({**PROBES, **changes}))


def test_deployed() -> None:
    now = release()
    assert (now.status, now.revision, now.chart, now.chart_version) == ("deployed", 3, "hami", "2.9.0")
    assert now.values == {"scheduler": {"leaderElect": False}}
    assert (now.good_revision, now.server_version, (now.nodes, now.servers)) == (3, "v1.36.2+k3s1", (2, 1))
    assert now.age_s == 60
    assert not now.working
    assert not now.cut_off


@pytest.mark.parametrize("config", [None, {}])
def test_no_values(config: object) -> None:
    assert release(secrets=listed(stored({**DEPLOYED, "config": config}))).values == {}


def test_no_release() -> None:
    now = release(secrets=listed())
    assert (now.status, now.revision, now.values, now.good_revision) == ("absent", 0, {}, None)
    assert now.server_version == "v1.36.2+k3s1"


def test_the_newest_of_several_revisions_counts_as_a_number() -> None:
    now = release(secrets=listed(revision(10, "pending-upgrade"), revision(9, "deployed")))
    assert (now.status, now.revision, now.good_revision) == ("pending-upgrade", 10, 9)


def test_no_good_revision() -> None:
    assert release(secrets=listed(revision(1, "pending-install"))).good_revision is None


@pytest.mark.parametrize(
    "answer",
    [
        ("", 22),
        ({"kind": "Status", "message": "secrets is forbidden"}, 22),
        listed({"metadata": {"name": "x"}, "data": {"release": "bm90IGhlbG0="}}),
        listed({"metadata": {"name": "x"}}),
        listed(stored({**DEPLOYED, "chart": {}})),
    ],
)
def test_unknown(answer: object) -> None:
    now = release(secrets=answer)
    assert now.status is None
    assert now.error


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-07-07", "2026-13-77T10:25:15Z", None])
def test_age_of_an_unknown_moment(moment: object) -> None:
    info = {"status": "deployed", "last_deployed": moment}
    assert release(secrets=listed(stored({**DEPLOYED, "info": info}))).age_s is None
    assert release(now="").age_s is None


def test_age_in_another_time_zone() -> None:
    info = {"status": "deployed", "last_deployed": "2026-07-07T12:25:15.1+02:00"}
    assert release(secrets=listed(stored({**DEPLOYED, "info": info}))).age_s == 60


def test_helm_at_work_and_helm_cut_off() -> None:
    assert release(working="/proc/77/comm").working
    assert release(cut_off="yes").cut_off


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"gitVersion": null}', '{"gitVersion": ""}', "Unable"]
)
def test_server_that_did_not_answer(text: str) -> None:
    assert release(version=text).server_version is None


SECRETS = "/api/v1/namespaces/kube-system/secrets?labelSelector=owner%3Dhelm%2Cname%3Dhami%2Cstatus%20notin%20%28superseded%29"


def test_through_the_real_script(host: Bin) -> None:
    api = Api(host)
    api.answers = {
        SECRETS: listed(stored(DEPLOYED)),
        "/version": {"gitVersion": "v1.36.2+k3s1"},
        "/api/v1/nodes": listed(SERVER),
    }
    now = api.read(Release, release="hami", namespace="kube-system")
    assert (now.status, now.chart_version, now.values) == ("deployed", "2.9.0", DEPLOYED["config"])
    # `working` looks at the processes of this machine: somebody's helm may really be at work
    assert (now.server_version, now.servers) == ("v1.36.2+k3s1", 1)
