"""What a share pod sees, and what happens when it fills its slice."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hami_k3s import probes
from hami_k3s.facts import batch
from hami_k3s.isolation.evidence import Mechanism, PodView, ProbeRun
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
from hami_k3s.remote import run
from hami_k3s.settings import Settings
from hami_k3s.templating import render

LIBRARY = "/usr/local/vgpu/libvgpu.so"
LOOK = {
    "table": "nvidia-smi",
    "cards": QUERY,
    "env": "env",
    "preload": "cat /etc/ld.so.preload",
    "library": f"ls {LIBRARY}",
}
PROBE_LIMIT = 120  # seconds for filling one slice; milliseconds on the cards seen so far
COMPILE_LIMIT = 300


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
    space: Space, pod: str, uuid: str, plan: SlicePlan, settings: Settings
) -> tuple[ProbeRun | None, str, str]:
    """Run the probe in the pod. (result, the host's nvidia-smi table meanwhile, why there is no result)."""
    command, problem = _install(space, pod, plan, settings)
    if problem:
        return None, "", problem
    script = render(
        "scripts/probe.sh",
        kubectl=EXEC,
        namespace=space.name,
        pod=pod,
        command=command,
        query=QUERY,
        limit=PROBE_LIMIT,
    )
    result = run(space.host, script, timeout=2 * PROBE_LIMIT + 20)
    answers = batch.parse(result.stdout.splitlines())
    if "out" not in answers:
        return None, "", f"the probe could not be run: {result.stderr.strip() or result.stdout.strip()}"
    out, err, seen = answers["out"], answers["err"], answers["host"]
    measured = None
    with suppress(ParseError):  # the claim then shows the exit status and the last line
        measured = parse_probe(out.text)
    free = used = None
    with suppress(ParseError, StopIteration):  # the claim then says that the host's free memory was not read
        card = next(card for card in parse_cards(seen.text) if card.uuid == uuid)
        free, used = card.free_mib, card.used_mib
    ran = ProbeRun(pod, out.status, measured, err.text, out.text, free, used)
    return ran, answers.get("table", batch.NOTHING).text, ""


def _install(space: Space, pod: str, plan: SlicePlan, settings: Settings) -> tuple[str, str]:
    """(command that runs the probe, problem)."""
    if settings.verify_probe == "driver":
        path = "/tmp/hami-k3s-probe.py"
        put = space.put(pod, path, probes.source("driver_probe.py"))
        sizes = f"--chunk-mib {plan.chunk_mib} --cap-mib {plan.cap_mib}"
        command = f"python3 {path} {sizes} --hold {PROBE_LIMIT} --until-stdin-closes"
        return command, "" if put.ok else f"the probe could not be sent to {pod}: {put.stderr.strip()}"
    path = "/tmp/hami-k3s-probe"
    put = space.put(pod, f"{path}.cu", probes.source("nvcc_probe.cu"))
    if not put.ok:
        return "", f"the probe could not be sent to {pod}: {put.stderr.strip()}"
    built = space.exec(pod, f"nvcc -o {path} {path}.cu", COMPILE_LIMIT)
    problem = (
        f"nvcc failed in {pod} (verify_nvcc_image needs the CUDA compiler): {built.stderr.strip()[-300:]}"
    )
    return (
        f"{path} {plan.chunk_mib} {plan.cap_mib} {PROBE_LIMIT} until-stdin-closes",
        "" if built.ok else problem,
    )
