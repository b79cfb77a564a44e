"""What a pod sees, and what happens when it fills its slice."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import gevent  # type: ignore[import-untyped]
from gevent.lock import BoundedSemaphore  # type: ignore[import-untyped]
from pyinfra.api import Host

from hami_k3s import cluster
from hami_k3s.facts import batch
from hami_k3s.isolation.evidence import Mechanism, PodView, ProbeResult, ProbeRun, Sight
from hami_k3s.isolation.parse import (
    QUERY,
    ParseError,
    gpu_environment,
    parse_cards,
    parse_probe,
    preload_names_hami_core,
)
from hami_k3s.isolation.plan import SlicePlan
from hami_k3s.proof.pods import EXEC, Space
from hami_k3s.proof.program import HOLD, Program
from hami_k3s.remote import Result, run
from hami_k3s.templating import render
from hami_k3s.transient import FOLDER

LIBRARY = "/usr/local/vgpu/libvgpu.so"
LOOK = {
    "table": "nvidia-smi",
    "cards": QUERY,
    "env": "env",
    "preload": "cat /etc/ld.so.preload",
    "library": f"ls {LIBRARY}",
}
SIGHT = {"devices": "ls /dev | grep -E '^nvidia[0-9]+$'", "listed": "nvidia-smi -L", "env": "env"}
# A server's connection also carries the looks and every other command of its agents (remote.CHANNELS).
AT_ONCE = 3
_at_once: WeakKeyDictionary[Host, BoundedSemaphore] = WeakKeyDictionary()
# The plain way is the claim `refused`; each of these is tried in a process of its own.
ROUTES = ("pitch", "async", "pool", "vmm", "array", "managed")


def look(space: Space, pod: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Evidence's `view` and `mechanism`, and why one is missing."""
    result = space.exec(pod, batch.script(LOOK))
    if not result.ok:
        reason = f"kubectl exec in {pod} failed: {result.stderr.strip() or result.stdout.strip()}"
        return {}, {"view": reason, "mechanism": reason}
    answers = batch.parse(result.stdout.splitlines())

    def text(name: str) -> str | None:
        return answers.get(name, batch.NOTHING).value

    named = preload_names_hami_core(text("preload") or "")
    # The library must be where the preload file says; the usual place is asked for in the same command.
    there = (
        text("library") if named in (None, LIBRARY) else space.exec(pod, f"ls {named}").stdout.strip() or None
    )
    parts: dict[str, Any] = {
        "mechanism": Mechanism(
            pod=pod,
            environment=gpu_environment(text("env") or ""),
            preload=text("preload"),
            library=there,
            stderr=result.stderr,
        )
    }
    try:
        cards = parse_cards(text("cards") or "")
    except ParseError as error:
        return parts, {"view": str(error)}
    if len(cards) != 1:
        seen = answers.get("cards", batch.NOTHING)
        return parts, {
            "view": f"nvidia-smi in {pod} shows {len(cards)} cards (exit status {seen.status}): {seen.text}"
        }
    card = cards[0]
    parts["view"] = PodView(pod, card.uuid, card.memory_mib, card.used_mib, text("table") or "")
    return parts, {}


def fill(
    space: Space, pods: list[str], uuid: str, plan: SlicePlan, program: Program
) -> tuple[list[ProbeRun], str, str]:
    """Fill these pods' slices, each held while the next is filled.

    (one run a pod, the host's nvidia-smi table meanwhile, why there is no result).
    """
    meeting = f"{FOLDER}/{space.name}-{pods[0]}" if cluster.is_agent(space.host) else ""
    script = render(
        "scripts/probe.sh",
        kubectl=EXEC,
        namespace=space.name,
        probes=[{"pod": pod, "command": program.command(plan, hold=True)} for pod in pods],
        query=QUERY,
        limit=HOLD,
        meeting=meeting,
    )
    result = _fill(space, script, meeting, [*map(str, range(1, len(pods) + 1)), "table"])
    answers = batch.parse(result.stdout.splitlines())
    if "out1" not in answers:
        return [], "", f"the probe could not be run: {result.stderr.strip() or result.stdout.strip()}"
    runs = []
    for number, pod in enumerate(pods, 1):
        out, err, seen = (answers.get(f"{name}{number}", batch.NOTHING) for name in ("out", "err", "host"))
        free = used = None
        with suppress(
            ParseError, StopIteration
        ):  # the claim then says that the host's free memory was not read
            card = next(card for card in parse_cards(seen.text) if card.uuid == uuid)
            free, used = card.free_mib, card.used_mib
        runs.append(ProbeRun(pod, out.status, _result(out.text), err.text, out.text, free, used))
    return runs, answers.get("table", batch.NOTHING).text, ""


def _fill(space: Space, script: str, meeting: str, looks: list[str]) -> Result:
    """Run the script on a server; where the card is in another host, look at it there whenever the script asks."""
    limit = len(looks) * HOLD + 20
    server = cluster.api(space.host)
    if not meeting or server is None:
        return cluster.ask(space.host, script, timeout=limit)
    with _at_once.setdefault(server, BoundedSemaphore(AT_ONCE)):
        filling = gevent.spawn(run, server, script, timeout=limit)
        for name in looks:
            if not _wanted(filling, server, f"{meeting}/look{name}"):
                break
            look = f"timeout 30 {'nvidia-smi' if name == 'table' else QUERY} 2>&1"
            seen = run(space.host, f"{look}; status=$?; echo; echo $status")
            text, _, status = seen.stdout.rstrip("\n").rpartition("\n")
            put = f"cat >{meeting}/host{name}.new && echo {shlex.quote(status or '1')} >{meeting}/status{name} && "
            run(server, f"{put}mv {meeting}/host{name}.new {meeting}/looked{name}", text)
        filled: Result = filling.get()
        return filled


def _wanted(filling: Any, server: Host, path: str) -> bool:
    """Wait until the script on the server makes this file. False when it has ended, or the server is lost."""
    while not filling.ready():
        made = run(server, f"until [ -e {path} ]; do sleep 0.1; done", timeout=20)
        if made.ok or made.lost:
            return made.ok
        gevent.sleep(0.1)  # it is still filling
    return False


def routes(
    space: Space, pod: str, uuid: str, plan: SlicePlan, program: Program
) -> tuple[tuple[ProbeRun, ...], str]:
    """Every route but the plain one, each in a process of its own. (runs, why there are none)."""
    free = None
    with suppress(ParseError, StopIteration):
        seen = run(space.host, QUERY).stdout
        free = next(card.free_mib for card in parse_cards(seen) if card.uuid == uuid)
    tried = list(ROUTES)
    left_out: list[ProbeRun] = []
    if free is None or free < plan.cap_mib:
        # Managed memory does not end with the card: past that it would spill into the host's memory.
        tried.remove("managed")
        reason = f"the card has {free} MiB free and the probe may take {plan.cap_mib}"
        result = ProbeResult(False, False, 0, plan.chunk_mib, plan.cap_mib, route="managed", error=reason)
        left_out.append(ProbeRun(pod, None, result, route="managed"))
    scripts = {route: f"{program.command(plan, route=route)} 2>&1" for route in tried}
    answer = space.exec(pod, batch.script(scripts), timeout=HOLD)
    answers = batch.parse(answer.stdout.splitlines())
    if not answers:
        return (), f"the probe could not be run in {pod}: {answer.stderr.strip() or answer.stdout.strip()}"
    runs = []
    for route in tried:
        said = answers.get(route, batch.NOTHING)
        # Both streams are in one text here: the line of HAMi-core and the result are told apart by their form.
        runs.append(ProbeRun(pod, said.status, _result(said.text), said.text, said.text, route=route))
    return (*runs, *left_out), ""


def sight(space: Space, pod: str, containers: tuple[str, ...]) -> tuple[tuple[Sight, ...], str]:
    """What containers without a request see. (sights, why one is missing)."""
    found = []
    for container in containers:
        result = space.exec(pod, batch.script(SIGHT), container=container)
        if not result.ok:
            return (), f"kubectl exec in {pod} failed: {result.stderr.strip() or result.stdout.strip()}"
        answers = batch.parse(result.stdout.splitlines())
        text = {name: answers.get(name, batch.NOTHING).text for name in SIGHT}
        found.append(
            Sight(
                container,
                devices=tuple(f"/dev/{name}" for name in text["devices"].split()),
                listed=tuple(line for line in text["listed"].splitlines() if re.match(r"GPU \d+:", line)),
                visible=gpu_environment(text["env"]).get("NVIDIA_VISIBLE_DEVICES"),
            )
        )
    return tuple(found), ""


def _result(text: str) -> ProbeResult | None:
    with suppress(ParseError):  # the claim then shows the exit status and the last line
        return parse_probe(text)
    return None
