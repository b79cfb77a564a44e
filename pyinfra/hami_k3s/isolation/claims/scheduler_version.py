"""The running kube-scheduler is of the API server's version."""

from __future__ import annotations

import re

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed, unknown

ID = "scheduler-version"
_VERSION = re.compile(r"v\d+\.\d+\.\d+")


def decide(evidence: Evidence) -> Verdict:
    """The tag of every live kube-scheduler image against the server's version without its +k3s suffix."""
    server = evidence.measured("server_version", evidence.server_version)
    match = _VERSION.match(server)
    wanted = match.group(0) if match else server
    expected = f"kube-scheduler {wanted}"
    images = evidence.measured("scheduler_images", evidence.scheduler_images)
    if not images:
        return failed(
            ID,
            expected,
            "no kube-scheduler is running",
            "GPU pods cannot be scheduled",
            "kubectl -n kube-system describe deployment hami-scheduler",
        )
    observed = ", ".join(images)
    tags = [image_tag(image) for image in images]
    if any(tag is None for tag in tags):
        why = "an image without a tag does not tell its version"
        return unknown(ID, expected, observed, why, "give the kube-scheduler image a tag")
    if any(tag != wanted for tag in tags):
        return failed(
            ID,
            expected,
            observed,
            f"a kube-scheduler of another version than the server ({server}) is the commonest HAMi failure",
            "converge with deploys/gpu_node.py, which takes the tag from the live server",
        )
    return passed(ID, expected, observed)


def image_tag(image: str) -> str | None:
    """The version in an image's tag: a suffix such as -k3s1 is another build of the same version."""
    name = image.partition("@")[0].rpartition("/")[2]
    tag = name.partition(":")[2]
    match = _VERSION.match(tag)
    return match.group(0) if match else tag or None


PAGE = """\
- Measured: the images of the running pods, not the value that was set; the server's version without `+k3s1`.
- Fails: any of them differs. Error: an image without a tag does not tell.
- Do: converge again; the tag is taken from the live server.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="The running kube-scheduler is of the API server's version.",
    proof="the live image, the version that the API server reports",
    step="4",
    decide=decide,
    page=PAGE,
)
