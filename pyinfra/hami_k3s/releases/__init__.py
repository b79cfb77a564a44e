"""Versions, URLs and checksums of what is installed, and what depends on a version. No I/O."""

from __future__ import annotations

import re
from urllib.parse import quote

# sha256 of published chart archives. HAMi has re-published an archive under the same version before (2.4.0).
CHART_SHA256 = {"2.9.0": "784420b747325aa19aea59a43da8d54517859fcebe82a89560cfaf55b2fd78a1"}

# The packages of NVIDIA's toolkit that are installed, all at one version.
PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)

# The key that a chart honours for the kube-scheduler tag; the other key is ignored or corrupts the image reference.
_TAG_KEY_OLD = ("scheduler", "kubeScheduler", "imageTag")
_TAG_KEY_NEW = ("scheduler", "kubeScheduler", "image", "tag")
# Charts 2.5 are left out: their services are always NodePort, which puts the unauthenticated extender on the network.
_TAG_KEYS = {
    **dict.fromkeys(("2.6.0", "2.6.1"), _TAG_KEY_OLD),
    **dict.fromkeys(("2.7.0", "2.7.1", "2.8.0", "2.8.1", "2.8.3", "2.9.0", "2.10.0"), _TAG_KEY_NEW),
}
# These put a *required* anti-affinity on the scheduler with leader election: one node can never roll it.
_ROLLING_DEADLOCK = ("2.8.0", "2.8.1", "2.8.3", "2.9.0")
# In these a scheduler that does not lead is ready all the same, and is asked nothing. In 2.8 it is never ready, so that a
# rollout of several cannot end; before, it is asked like the one that leads (HAMi #1954).
_SEVERAL_SCHEDULERS = ("2.9.0", "2.10.0")


def numbers(version: str) -> tuple[int, ...]:
    """`v1.36.2+k3s1` -> (1, 36, 2, 1): comparable; the k3s build counts."""
    return tuple(int(part) for part in re.findall(r"\d+", version.replace("k3s", "")))


# `uname -m` -> the name that k3s, helm and Debian use
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture(machine: str) -> str | None:
    """The name that k3s, helm and Debian use, or None if this project does not support the machine."""
    return ARCHITECTURES.get(machine)


def k3s_urls(base: str, version: str, arch: str) -> tuple[str, str, str]:
    """(binary, sums, the binary's name in the sums)."""
    # The mirror in China, which k3s' maintainers do not run, writes a tag's + as -.
    tag = version.replace("+", "-") if base.startswith("https://rancher-mirror.rancher.cn/") else version
    folder = f"{base}/{quote(tag, safe='')}"
    name = "k3s" if arch == "amd64" else f"k3s-{arch}"
    return f"{folder}/{name}", f"{folder}/sha256sum-{arch}.txt", name


def helm_urls(base: str, version: str, arch: str) -> tuple[str, str, str]:
    """(archive, sums, the archive's name in the sums)."""
    name = f"helm-{version}-linux-{arch}.tar.gz"
    return f"{base}/{name}", f"{base}/{name}.sha256sum", name


def k3s_images_url(base: str, version: str, arch: str) -> tuple[str, str]:
    """(archive of the images k3s itself needs, its name in the sums)."""
    name = f"k3s-airgap-images-{arch}.tar.zst"
    return f"{k3s_urls(base, version, arch)[0].rpartition('/')[0]}/{name}", name


# The first patch of each minor in which k3s names the images that it imports by digest too (k3s#13221).
_IMPORTS_BY_DIGEST = {32: 11, 33: 7, 34: 3}


def imports_by_digest(version: str) -> bool:
    """Does this k3s find an image from its images folder for a pod that names it by digest?"""
    _, minor, patch = numbers(version)[:3]
    return minor > max(_IMPORTS_BY_DIGEST) or patch >= _IMPORTS_BY_DIGEST.get(minor, patch + 1)


def image_archive(image: str, digest: str, arch: str) -> str:
    """Where a bundle has an image's archive. Another digest is another file."""
    return f"images/{arch}/{re.sub(r'[^A-Za-z0-9.-]+', '_', image)}-{digest[7:19]}.tar"


def chart_words(repository: str) -> list[str]:
    """What `helm pull` is told for a chart repository or an OCI registry (oci://HOST/FOLDER)."""
    return [f"{repository}/hami"] if repository.startswith("oci://") else ["hami", "--repo", repository]


def scheduler_tag(server_version: str) -> str:
    """The kube-scheduler tag for an API server: `v1.36.2+k3s1` -> `v1.36.2`."""
    return server_version.split("+", maxsplit=1)[0]


def scheduler_tag_path(chart_version: str) -> tuple[str, ...]:
    """Where this chart reads the kube-scheduler tag. Errors: ValueError for a chart that is not known."""
    if chart_version not in _TAG_KEYS:
        raise ValueError(
            "which key this chart reads the kube-scheduler tag from is not known; known charts: "
            + ", ".join(_TAG_KEYS)
        )
    return _TAG_KEYS[chart_version]


def rolling_deadlock(chart_version: str) -> bool:
    """Does leader election stop this chart from being upgraded where each node has a scheduler?"""
    return chart_version in _ROLLING_DEADLOCK


def several_schedulers(chart_version: str) -> bool:
    """Do several schedulers work with this chart?"""
    return chart_version in _SEVERAL_SCHEDULERS
