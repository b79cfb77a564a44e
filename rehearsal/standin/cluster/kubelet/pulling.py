"""Getting a container's image, as often and as loudly as kubelet tries."""

import asyncio
import hashlib
from typing import Any

from .. import machine
from ..cluster import Cluster
from . import images, imported, registry

Object = dict[str, Any]


class Pulling:
    cluster: Cluster
    states: dict[str, Object]
    event: Any
    _state: Any
    _specs: Any

    def _running_image(self, container: Object) -> images.Image:
        """The image of a container that was started before: it needs no registry any more."""
        try:
            return images.pull(container["image"], self.cluster.version)
        except images.PullError:
            return images.Image(container["image"], "service")

    async def _image(self, container: Object) -> images.Image:
        reference, wait = container["image"], 10.0
        while True:
            current = next((c for c in self._specs() if c["name"] == container["name"]), container)
            reference = current["image"]
            try:
                image = images.pull(reference, self.cluster.version)
                digest = await self._reach(image)
            except images.PullError as failed:
                await self._pull_failed(container, reference, failed, wait)
                wait = min(wait * 2, 300.0)
                continue
            if image.name in self.cluster.kubelet.images and current.get("imagePullPolicy") != "Always":
                if "containerID" not in self.states.get(container["name"], {}):
                    self.event(
                        "Normal", "Pulled", f'Container image "{reference}" already present on machine'
                    )
                self._state(container, imageID=_id(image.name, digest))
                return image
            self._state(container, state={"waiting": {"reason": "ContainerCreating"}})
            self.event("Normal", "Pulling", f'Pulling image "{reference}"')
            await asyncio.sleep(image.seconds * (1 if machine.fault("slow-node") is None else 10))
            text = f'Successfully pulled image "{reference}" in {int(image.seconds * 1000)}ms'
            self.event("Normal", "Pulled", text)
            self.cluster.kubelet.pulled(image.name, digest)
            self._state(container, imageID=_id(image.name, digest))
            return image

    async def _reach(self, image: images.Image) -> str:
        """The image's digest. What is not on the node needs a route to a registry; what k3s imported is on the node."""
        known = self.cluster.kubelet.images
        if image.name in known:
            return known[image.name]
        found = imported.find(image.name, self.cluster.version)
        if found is not None:
            self.cluster.kubelet.pulled(image.name, found)
            return found
        if not machine.online():
            host = image.name.partition("/")[0]
            raise images.PullError(
                f'failed to pull and unpack image "{image.name}": failed to resolve reference "{image.name}": '
                f"failed to do request: dial tcp: lookup {host}: connect: network is unreachable"
            )
        return await asyncio.to_thread(registry.digest, image)

    async def _pull_failed(
        self, container: Object, reference: str, failed: images.PullError, wait: float
    ) -> None:
        if failed.reason == "InvalidImageName":
            self._state(container, state={"waiting": {"reason": failed.reason, "message": str(failed)}})
            self.event("Warning", "InspectFailed", str(failed))
            self.event("Warning", "Failed", "Error: InvalidImageName")
            await asyncio.sleep(wait)
            return
        self.event("Normal", "Pulling", f'Pulling image "{reference}"')
        self._state(container, state={"waiting": {"reason": "ErrImagePull", "message": str(failed)}})
        self.event("Warning", "Failed", f'Failed to pull image "{reference}": {failed}')
        self.event("Warning", "Failed", "Error: ErrImagePull")
        await asyncio.sleep(1.0)
        text = f'Back-off pulling image "{reference}"'
        waiting = {"reason": "ImagePullBackOff", "message": f"{text}: ErrImagePull: {failed}"}
        self._state(container, state={"waiting": waiting})
        self.event("Normal", "BackOff", text)
        self.event("Warning", "Failed", "Error: ImagePullBackOff")
        await asyncio.sleep(wait)


def _id(name: str, digest: str) -> str:
    """A container's imageID: by digest where one is known, else the sum of the image's config, which is made up."""
    repository = name.partition("@")[0] if "@" in name else name.rpartition(":")[0]
    return f"{repository}@{digest}" if digest else f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
