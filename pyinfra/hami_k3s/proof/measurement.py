"""Collects the parts of one card's evidence; a part that fails leaves its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyinfra.api import Host

from hami_k3s.isolation.evidence import Evidence, Pod
from hami_k3s.isolation.parse import read_event
from hami_k3s.proof.pods import Space
from hami_k3s.settings import Settings
from hami_k3s.waits import Look, until


class Measurement:
    """What is known so far, of one card or of the node alone."""

    def __init__(
        self, host: Host, settings: Settings, parts: dict[str, Any], errors: dict[str, str], mark: str = ""
    ) -> None:
        self.host = host
        self.settings = settings
        self.parts = dict(parts)
        self.errors = dict(errors)
        self.sees = False  # also looks at what a pod without a request sees
        self.mark = mark  # in front of every line, where several cards are proved at the same time

    def evidence(self) -> Evidence:
        """What is known so far."""
        known = {name: value for name, value in self.parts.items() if value is not None}
        return Evidence(host=self.host.name, errors=dict(self.errors), **known)

    def take(self, found: tuple[dict[str, Any], dict[str, str]]) -> None:
        """Add parts and reasons."""
        self.parts |= found[0]
        self.errors |= found[1]

    def put(self, part: str, value: Any, problem: str) -> None:
        """One part, or the reason why it is missing."""
        if problem:
            self.errors[part] = problem
        else:
            self.parts[part] = value

    def say(self, text: str) -> None:
        """One line of progress."""
        self.host.log(f"    {self.mark}{text}")


def until_running(
    now: Measurement, space: Space, names: tuple[str, ...], limit: int | None = None
) -> dict[str, Pod] | None:
    """Wait for these pods. Their last state, also when they do not come up; None when the API stopped answering."""
    last: list[dict[str, Pod] | None] = [None]

    def look() -> Look:
        last[0] = space.look()
        if last[0] is None:
            return Look("wait", "the API server does not answer")
        mine = {name: last[0][name] for name in names if name in last[0]}
        if all(name in mine and mine[name].phase == "Running" for name in names):
            return Look("done", f"{', '.join(names)} run")
        ended = [f"{pod.name} {pod.phase}" for pod in mine.values() if pod.phase in ("Failed", "Succeeded")]
        if ended:
            return Look("failed", f"a pod ended: {', '.join(ended)}")
        words = [f"{name} {said(pod)}" for name, pod in mine.items() if pod.phase != "Running"]
        return Look("wait", ", ".join(words) or "the pods are not there")

    until(now.host, f"{now.mark}pods", limit or now.settings.verify_timeout, look, "verify_timeout", pause=1)
    return last[0]


def wait_for_pod(
    now: Measurement, space: Space, name: str, what: str, done: Callable[[Pod], str]
) -> Pod | None:
    """Wait until `done` says something about the pod; its last state in any case, None when it was never seen."""
    last: list[Pod | None] = [None]

    def look() -> Look:
        seen = (space.look() or {}).get(name)
        if seen is None:
            return Look("wait", "the API server does not answer")
        last[0] = seen
        word = done(seen)
        return Look("done", word) if word else Look("wait", said(seen))

    limit = now.settings.verify_pending_timeout
    until(now.host, f"{now.mark}{what}", limit, look, "verify_pending_timeout", pause=1)
    return last[0]


def said(pod: Pod) -> str:
    """Phase, and what kubelet or the last event says, in plain words."""
    if pod.reason:
        return f"{pod.phase}: {pod.reason[:160]}"
    return f"{pod.phase}: {read_event(pod.events[-1]).sentence}" if pod.events else pod.phase
