"""What HAMi does once its release is installed: registration, webhook, scheduling, allocation."""

from collections.abc import Callable

from ..cluster import Cluster


def register() -> None:
    """Its programs, on every node. None of them acts before its container runs."""
    from . import certgen, extender, nvidia_plugin, plugin

    for part in (plugin, nvidia_plugin, extender, certgen):
        part.register()


def control(cluster: Cluster) -> list[Callable[[Cluster], None]]:
    """What it does for the whole cluster, where the cluster's changes are made."""
    from . import scheduler, scheduler_image, webhook

    cluster.objects.admission.backends.append(lambda reference: webhook.backend(cluster, reference))
    return [scheduler_image.sync, scheduler.sync]
