"""What HAMi does once its release is installed: registration, webhook, scheduling, allocation."""

from ..cluster import Cluster


def install(cluster: Cluster) -> None:
    """Hook HAMi's programs in. None of them acts before its container runs."""
    from . import certgen, extender, nvidia_plugin, plugin, scheduler, scheduler_image, webhook

    for part in (plugin, nvidia_plugin, extender, certgen):
        part.register()
    cluster.objects.admission.backends.append(lambda reference: webhook.backend(cluster, reference))
    cluster.syncs += [scheduler_image.sync, scheduler.sync]
