"""The layer between the base tree and a node's own files: driver stand-ins, kubectl, the mirror's CA, the boot unit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from rehearsal import base, binaries, cache, keys
from rehearsal.errors import RehearsalError

SOURCES = Path(__file__).parent / "standin" / "gpu"
FLAGS = ["-std=c11", "-D_DEFAULT_SOURCE", "-D_XOPEN_SOURCE=700", "-D_FILE_OFFSET_BITS=64", "-O1"]
FLAGS += ["-fPIC", "-shared", "-Wall", "-Wextra"]
# _GNU_SOURCE stays unset: on a newer glibc it would bind symbols that the node's glibc does not have.
LIBRARIES = {
    "libcuda.so.1": ("libcuda.c memory.c cards.c ledger.c faults.c", "exports.cuda"),
    "libnvidia-ml.so.1": ("libnvml.c cards.c ledger.c faults.c", "exports.nvml"),
    "libvgpu.so": ("vgpu.c ledger.c faults.c", "exports.vgpu"),
}


def compile_libraries(out: Path) -> None:
    """The three stand-in libraries into `out`. libvgpu.so needs libcuda.so.1, as the real one does."""
    for name, (sources, exports) in LIBRARIES.items():
        command = [
            "gcc",
            *FLAGS,
            "-o",
            str(out / name),
            *(str(SOURCES / source) for source in sources.split()),
        ]
        command += [f"-Wl,--version-script={SOURCES / exports}", f"-Wl,-soname,{name}", "-ldl", "-lpthread"]
        if name == "libvgpu.so":
            command += [f"-L{out}", "-Wl,--no-as-needed", "-l:libcuda.so.1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RehearsalError(f"gcc could not build {name}:\n{done.stderr[-2000:]}")


def _build(folder: Path) -> None:
    home = folder / "usr/lib/rehearsal"
    for sub in ("driver", "bin", "image"):
        (home / sub).mkdir(parents=True)
    compile_libraries(home / "driver")
    (home / "driver/libvgpu.so").rename(home / "libvgpu.so")
    shutil.copy2(SOURCES / "nvidia-smi", home / "driver/nvidia-smi")
    for name in ("node-apply", "node-break", "nvidia-device-plugin.yaml", "nvcc", "nvcc-probe.py"):
        shutil.copy2(SOURCES / name, home / name)
    for script in (home / "driver/nvidia-smi", home / "node-apply", home / "node-break", home / "nvcc"):
        script.chmod(0o755)
    shutil.copy2(binaries.kubectl(), home / "bin/kubectl")
    units = folder / "etc/systemd/system"
    (units / "sysinit.target.wants").mkdir(parents=True)
    shutil.copy(SOURCES / "rehearsal-node.service", units)
    (units / "sysinit.target.wants/rehearsal-node.service").symlink_to("../rehearsal-node.service")
    _trust(folder, keys.folder() / "ca.crt")


def _trust(folder: Path, authority: Path) -> None:
    """What update-ca-certificates would write, so that a node trusts the mirror from its first second."""
    local, store = folder / "usr/local/share/ca-certificates", folder / "etc/ssl/certs"
    local.mkdir(parents=True)
    store.mkdir(parents=True)
    shutil.copy(authority, local / "rehearsal.crt")
    bundle = (base.tree() / "etc/ssl/certs/ca-certificates.crt").read_text()
    (store / "ca-certificates.crt").write_text(bundle + authority.read_text())
    (store / "rehearsal.pem").symlink_to("/usr/local/share/ca-certificates/rehearsal.crt")
    hashed = keys.run(["openssl", "x509", "-noout", "-hash", "-in", str(authority)]).strip()
    (store / f"{hashed}.0").symlink_to("rehearsal.pem")


def layer() -> Path:
    """The folder of the layer, from the cache."""
    authority = (keys.folder() / "ca.crt").read_text()
    return cache.entry(
        "parts", cache.digest(SOURCES, authority, base.tree().parent.name, str(binaries.kubectl())), _build
    )
