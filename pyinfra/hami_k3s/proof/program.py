"""The probe in the pods: which of the two, how it gets there, how it is called."""

from __future__ import annotations

from dataclasses import dataclass

from hami_k3s import probes
from hami_k3s.isolation.plan import SlicePlan
from hami_k3s.proof.pods import Space
from hami_k3s.releases import origin
from hami_k3s.settings import Settings

HOLD = 120  # seconds for filling one slice; milliseconds on the cards seen so far
COMPILE_LIMIT = 300
DRIVER, NVCC = "/tmp/hami-k3s-probe.py", "/tmp/hami-k3s-probe"


@dataclass(frozen=True)
class Program:
    """`driver`: ctypes on libcuda, needs python3. `nvcc`: the lab's program, compiled in the first pod."""

    kind: str

    def install(self, space: Space, pods: list[str]) -> str:
        """Put the probe in these pods; what went wrong, or ""."""
        if self.kind == "driver":
            for pod in pods:
                put = space.put(pod, DRIVER, probes.source("driver_probe.py"))
                if not put.ok:
                    return f"the probe could not be sent to {pod}: {put.stderr.strip()}"
            return ""
        first, others = pods[0], pods[1:]
        put = space.put(first, f"{NVCC}.cu", probes.source("nvcc_probe.cu"))
        if not put.ok:
            return f"the probe could not be sent to {first}: {put.stderr.strip()}"
        built = space.exec(first, f"nvcc -o {NVCC} {NVCC}.cu", COMPILE_LIMIT)
        if not built.ok:
            why = built.stderr.strip()[-300:]
            return f"nvcc failed in {first} (verify_nvcc_image needs the CUDA compiler): {why}"
        copied = space.copy(first, others, NVCC) if others else built
        return "" if copied.ok else f"the compiled probe could not be copied: {copied.stderr.strip()}"

    def command(self, plan: SlicePlan, route: str = "sync", hold: bool = False) -> str:
        """The command line in a pod; with `hold` it keeps the memory until its stdin is closed."""
        if self.kind == "driver":
            ending = f" --hold {HOLD} --until-stdin-closes" if hold else ""
            return f"python3 {DRIVER} --route {route} --chunk-mib {plan.chunk_mib} --cap-mib {plan.cap_mib}{ending}"
        ending = f"{HOLD} route={route} until-stdin-closes" if hold else f"0 route={route}"
        return f"{NVCC} {plan.chunk_mib} {plan.cap_mib} {ending}"


def of(settings: Settings) -> tuple[Program, str]:
    """The probe that the settings ask for, and its image, by digest when it is locked."""
    return Program(settings.verify_probe), origin.of(settings).image(settings.probe_image)
