"""Do HAMi's containers run the images that the lock names? Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hami_k3s.facts.hami import HamiPod
from hami_k3s.releases.lockfile import Image
from hami_k3s.releases.reference import DIGEST, full


def differing(pods: Iterable[HamiPod], images: Mapping[str, Image], judge: str) -> Iterator[str]:
    """A sentence for each container with another image: one of a tag that `hami_values` sets, or of a registry's own.

    + images: the lock's, by full name
    + judge: how messages name the lock
    """
    for pod in pods:
        for container, image in pod.images.items():
            wanted = images.get(full(image))
            if wanted is None:
                yield f"{pod.name} runs {full(image)}, which {judge} does not have: lock again, with these hami_values"
                continue
            # A reference by digest is kept by containerd; of one by tag the node says what it pulled.
            seen = DIGEST.search(image) or DIGEST.search(pod.pulled.get(container, "").partition("@")[2])
            if seen and seen[0] not in (wanted.digest, *wanted.manifests.values()):
                yield (
                    f"{pod.name}: {full(image)} is {seen[0]}\n{judge} says {wanted.digest}: refused. The image was "
                    "published again under its tag, or a registry has another one; lock again after you have checked which"
                )
