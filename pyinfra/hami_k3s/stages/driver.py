"""Before step 1 of the lab, where a host asks for it: NVIDIA's driver."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s.operations import driver, host
from hami_k3s.stages.common import settings, sources


@deploy("Driver")
def nvidia_driver() -> None:
    """With `driver_install: true`: a driver of the pinned branch that answers, then the whole preflight again."""
    want = settings()
    if not want.driver_install or not want.k3s_gpu:
        return
    where = sources(want)
    driver.packages(name="The driver's packages", settings=want, origin=where)
    driver.loaded(name="The driver answers", settings=want)
    host.gpu_host(name="The host can be a GPU node now", settings=want, strict=True)
