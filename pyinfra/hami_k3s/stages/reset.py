"""The clean-up at the end of the lab, and the whole way back."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from hami_k3s import traces
from hami_k3s.operations import reset, reset_hami
from hami_k3s.stages import k3s as k3s_stage
from hami_k3s.stages.common import settings


@deploy("Reset")
def unused() -> None:
    """Stop where somebody's pods use the cards, and name them, unless `reset_force` is true."""
    reset.unused(name="No GPU pod is lost unasked", settings=settings())


@deploy("Reset")
def hami() -> None:
    """Remove HAMi: release, verify's pods, annotations and label of this host's node, its files, drop-in and holds."""
    want = settings()
    reset_hami.hami(name="HAMi is gone", settings=want)
    reset_hami.node(name="The node is an ordinary one", settings=want)
    plain = k3s_stage.contents(want.model_copy(update={"k3s_gpu": False}))[traces.DROP_IN][0]
    reset.files(name="HAMi's files, runtime and holds are gone", settings=want, plain=plain)


@deploy("Reset")
def k3s() -> None:
    """Remove k3s with all its data, and helm, when `reset_k3s` is true."""
    want = settings()
    scripts = {path: one for path, one in k3s_stage.contents(want).items() if path.endswith("all.sh")}
    reset.k3s(name="k3s is gone, if asked (reset_k3s)", settings=want, scripts=scripts)


@deploy("Reset")
def toolkit() -> None:
    """Remove the toolkit's packages, NVIDIA's repository and the private CA when `reset_toolkit` is true."""
    reset.toolkit(name="The toolkit is gone, if asked (reset_toolkit)", settings=settings())


@deploy("Reset")
def rest() -> None:
    """What stays runs with what is there now; then what is left is shown, and fails the host if it was to be removed."""
    want = settings()
    reset.settled(name="What stays is settled", settings=want)
    reset.audit(name="What is left", settings=want)
