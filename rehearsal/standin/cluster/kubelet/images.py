"""The images that this node's registry has, and what each is on the inside.

Every image's file system is the rehearsal's base tree; an image whose programs are played (HAMi, the cluster's own)
has none at all. An image that is not in this table cannot be pulled, as with a real registry.
"""

import re
from dataclasses import dataclass, field, replace

from .. import machine
from ..containerd import parse_version
from ..words import words

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The newest patch release of each minor that registry.k8s.io holds.
KUBE_SCHEDULERS = {
    25: 16,
    26: 15,
    27: 16,
    28: 15,
    29: 15,
    30: 14,
    31: 14,
    32: 13,
    33: 9,
    34: 6,
    35: 6,
    36: 3,
    37: 1,
}
HAMI_TAGS = words(
    """
    2.5.0 2.5.1 2.5.2 2.5.3 2.6.0 2.6.1 2.7.0 2.7.1 2.8.0 2.8.1 2.8.2 2.8.3 2.9.0 2.10.0
    """
)


@dataclass(frozen=True)
class Image:
    name: str  # full reference
    kind: str  # system: its programs run for real; hami, scheduler, certgen, nvidia-plugin, service: played
    env: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.6  # how long a pull takes here
    command: tuple[str, ...] = ()


class PullError(Exception):
    """Why an image cannot be had; `reason` is what the container's waiting state says."""

    def __init__(self, message: str, reason: str = "ErrImagePull") -> None:
        super().__init__(message)
        self.reason = reason


NVIDIA_ENV = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
GOOGLE = r"(registry\.k8s\.io|registry\.cn-hangzhou\.aliyuncs\.com/google_containers|k8s\.gcr\.io)"
TABLE: list[tuple[str, str]] = [
    (r"docker\.io/library/python:3\.\d+(\.\d+)?(-slim)?(-(bookworm|trixie|bullseye))?", "python"),
    (r"docker\.io/library/(debian|ubuntu|bash|busybox):[\w.-]+", "plain"),
    (r"docker\.io/nvidia/cuda:\d+\.\d+\.\d+-(base|runtime|devel)-ubuntu(20|22|24)\.04", "cuda"),
    (r"nvcr\.io/nvidia/cuda:\d+\.\d+\.\d+-(base|runtime|devel)-ubuntu(20|22|24)\.04", "cuda"),
    (r"docker\.io/projecthami/hami:v[\d.]+", "hami"),
    (GOOGLE + r"/kube-scheduler:v[\d.]+", "scheduler"),
    (r"docker\.io/liangjw/kube-webhook-certgen:v1\.1\.1", "certgen"),
    (r"docker\.io/jettech/kube-webhook-certgen:v1\.5\.2", "certgen"),
    (r"nvcr\.io/nvidia/k8s-device-plugin:v0\.1[0-9]\.\d+", "nvidia-plugin"),
    (
        r"docker\.io/rancher/(mirrored-coredns-coredns|mirrored-pause|klipper-helm|klipper-lb):[\w.-]+",
        "service",
    ),
    (r"registry\.k8s\.io/pause:[\w.-]+", "service"),
]
REFERENCE = re.compile(
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)


def normal(reference: str) -> str:
    """The full form of a reference, as containerd names it: with a digest the tag does not count."""
    if not REFERENCE.fullmatch(reference):
        text = f'Failed to apply default image tag "{reference}": couldn\'t parse image name "{reference}": '
        raise PullError(f"{text}invalid reference format", "InvalidImageName")
    first, _, rest = reference.partition("/")
    if not rest:
        reference = f"docker.io/library/{reference}"
    elif "." not in first and ":" not in first and first != "localhost":
        reference = f"docker.io/{reference}"
    if ":" not in reference.rsplit("/", 1)[-1] and "@" not in reference:
        reference += ":latest"
    name, _, digest = reference.partition("@")
    if not digest:
        return reference
    repository = name.rpartition(":")[0] if ":" in name.rsplit("/", 1)[-1] else name
    return f"{repository}@{digest}"


def pull(reference: str, server_version: str) -> Image:
    """The image's kind by its tag, which a reference by digest must have besides."""
    name, tagged = normal(reference), normal(reference.partition("@")[0])
    refused = [normal(m) for m in machine.read().get("missing_images") or []]
    tag = tagged.rsplit(":", 1)[-1]
    for pattern, kind in TABLE:
        if tagged not in refused and re.fullmatch(pattern, tagged) and _published(kind, tag, server_version):
            return replace(_image(tagged, kind), name=name)
    text = (
        f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
    )
    raise PullError(f"rpc error: code = NotFound desc = {text}")


def _published(kind: str, tag: str, server_version: str) -> bool:
    if kind == "hami":
        return tag.removeprefix("v") in HAMI_TAGS
    if kind == "scheduler":
        if tag == server_version.split("+", maxsplit=1)[0]:
            return True
        try:
            major, minor, patch = parse_version(tag)
        except ValueError:
            return False
        return major == 1 and patch <= KUBE_SCHEDULERS.get(minor, -1)
    return True


def _image(name: str, kind: str) -> Image:
    if kind == "cuda":
        env = {
            "PATH": f"/usr/local/nvidia/bin:/usr/local/cuda/bin:{PATH}",
            "LD_LIBRARY_PATH": "/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
            "CUDA_VERSION": name.rsplit(":", 1)[-1].split("-", maxsplit=1)[0],
            **NVIDIA_ENV,
        }
        return Image(name, "system", env, 2.0, ("bash",))
    if kind == "python":
        return Image(name, "system", {"PATH": PATH, "LANG": "C.UTF-8"}, 1.0, ("python3",))
    if kind == "plain":
        return Image(name, "system", {"PATH": PATH}, 0.5, ("bash",))
    env = {"PATH": PATH, **(NVIDIA_ENV if kind in ("hami", "nvidia-plugin") else {})}
    return Image(name, kind, env)
