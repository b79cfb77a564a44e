"""What a reset must ask about, still has to remove, and leaves in place. Judged from the host's state; pure functions.

`whole`: every host of the cluster is in this run. If not, the others go on with HAMi and k3s, and this one only leaves.
"""

from __future__ import annotations

from hami_k3s.facts.reset import Leftovers
from hami_k3s.settings import Settings


def goes_with_k3s(settings: Settings, whole: bool) -> bool:
    """Does all that the API holds go away with k3s' own data?"""
    return settings.reset_k3s and whole


def to_remove(state: Leftovers, settings: Settings, whole: bool = True) -> list[str]:
    """What the settings ask to remove and is there."""
    found: list[str] = []
    if not goes_with_k3s(settings, whole):
        found += [*(state.hami if whole else ()), *state.marks]
    found += [*state.paths.get("always", ()), *state.paths.get("run", ())]
    found += [f"hold of {package}" for package in state.held]
    if settings.reset_k3s and state.k3s != "another":
        found += state.paths.get("k3s", ())
    if settings.reset_toolkit:
        found += [*(f"package {package}" for package in state.packages), *state.paths.get("toolkit", ())]
    return found


def staying(state: Leftovers, settings: Settings, whole: bool = True) -> list[str]:
    """What is there and stays, one line for each reason."""
    lines = []
    if not whole and state.hami:
        lines.append(f"HAMi, for the other hosts of its cluster: {', '.join(state.hami)}")
    if state.k3s == "another":
        lines.append("k3s, which another installer brought: it is not touched")
    elif not settings.reset_k3s and (kept := state.paths.get("k3s")):
        lines.append(f"k3s and helm, for reset_k3s is false: {', '.join(kept)}")
    elif settings.reset_k3s and (kept := state.paths.get("yours")):
        lines.append(f"your own files: {', '.join(kept)}")
    if not settings.reset_toolkit and (kept := (*state.packages, *state.paths.get("toolkit", ()))):
        lines.append(f"the container toolkit, for reset_toolkit is false: {', '.join(kept)}")
    if kept := state.paths.get("stays"):
        lines.append(f"what keeps NVIDIA's driver at its branch: {', '.join(kept)}")
    return lines


def refusal(state: Leftovers, settings: Settings, whole: bool = True) -> str:
    """Why this reset must not go on without `reset_force`, or ""."""
    if settings.reset_force or not to_remove(state, settings, whole):
        return ""
    if state.pods:
        many = f"{len(state.pods)} pods have" if len(state.pods) > 1 else "1 pod has"
        end = "they end" if len(state.pods) > 1 else "it ends"
        return "\n".join(
            [f"{many} a card of this node; {end} when HAMi goes:", *(f"- {pod}" for pod in state.pods)]
        )
    # Where there is a datastore, HAMi's removal is refused with a reason of its own.
    risky = settings.reset_k3s or not state.database
    if state.pods is None and risky and state.working and not state.begun and state.k3s == "ours":
        return (
            "pods run here and the API does not answer, so nobody knows whether they use a card: "
            "`systemctl status k3s` on a server says why"
        )
    return ""
