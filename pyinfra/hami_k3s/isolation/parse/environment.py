"""What HAMi's device plugin and the NVIDIA runtime put in a container."""

from __future__ import annotations

import re

# Only these are kept as evidence: a pod's environment may hold anything.
_GPU_NAME = re.compile(r"^(CUDA_|NVIDIA_|GPU_CORE_|LIBCUDA_|HAMI_|LD_PRELOAD$)")


def gpu_environment(text: str) -> dict[str, str]:
    """`env`'s output to the variables that concern the card; every other one is left out."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, sign, value in pairs if sign and _GPU_NAME.match(name)}


def preload_names_hami_core(text: str) -> str | None:
    """The path of libvgpu.so in the text of /etc/ld.so.preload, or None when it is not named there."""
    # The loader splits on white space and colons, and takes no comments but "#" to the end of the line.
    words = re.split(r"[\s:]+", re.sub(r"#.*", "", text))
    return next((word for word in words if re.search(r"(^|/)libvgpu\.so[^/]*$", word)), None)
