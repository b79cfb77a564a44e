"""What a reset must ask about, still has to remove, and leaves in place. Judged from the host's state; pure functions."""

from __future__ import annotations

from hami_k3s.facts.reset import Leftovers
from hami_k3s.settings import Settings


def to_remove(state: Leftovers, settings: Settings) -> list[str]:
    """What the settings ask to remove and is there."""
    found = [] if settings.reset_k3s and state.nodes < 2 else list(state.hami)
    found += [*state.paths.get("always", ()), *state.paths.get("run", ())]
    found += [f"hold of {package}" for package in state.held]
    if settings.reset_k3s and state.k3s != "another":
        found += state.paths.get("k3s", ())
    if settings.reset_toolkit:
        found += [*(f"package {package}" for package in state.packages), *state.paths.get("toolkit", ())]
    return found


def staying(state: Leftovers, settings: Settings) -> list[str]:
    """What is there and stays, one line for each reason."""
    lines = []
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


def refusal(state: Leftovers, settings: Settings) -> str:
    """Why this reset must not go on without `reset_force`, or ""."""
    if settings.reset_force or not to_remove(state, settings):
        return ""
    if state.pods:
        many = f"{len(state.pods)} pods have" if len(state.pods) > 1 else "1 pod has"
        end = "they end" if len(state.pods) > 1 else "it ends"
        return "\n".join(
            [f"{many} a card of this node; {end} when HAMi goes:", *(f"- {pod}" for pod in state.pods)]
        )
    if (
        state.pods is None
        and settings.reset_k3s
        and state.working
        and not state.begun
        and state.k3s == "ours"
    ):
        return (
            "pods run here and k3s does not answer, so nobody knows whether they use a card: "
            "`systemctl status k3s` says why"
        )
    return ""
