"""What the machine that runs the rehearsal must have, and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from rehearsal.errors import RehearsalError

# command (or file) -> Debian/Ubuntu package
NEEDED = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "gcc": "gcc",
    "/usr/include/stdio.h": "libc6-dev",
    "dpkg-deb": "dpkg-dev",
    "gpg": "gnupg",
    "openssl": "openssl",
    "ssh": "openssh-client",
    "unshare": "util-linux",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def missing_packages() -> list[str]:
    """Packages whose command or file is not on this machine."""
    return [
        package
        for probe, package in NEEDED.items()
        if not (Path(probe).exists() if probe.startswith("/") else shutil.which(probe))
    ]


def require(install: bool = False) -> None:
    """Root and the packages; installs them with apt when `install` is set, else names them all."""
    if os.geteuid() != 0:
        raise RehearsalError("a rehearsal boots machines and needs root: run the same command with sudo")
    if platform.machine() != "x86_64":
        raise RehearsalError(f"a rehearsal needs an x86_64 machine, this one is {platform.machine()}")
    missing = missing_packages()
    if not missing:
        return
    hint = "apt-get install -y --no-install-recommends " + " ".join(missing)
    if not install:
        raise RehearsalError(
            f"missing on this machine: {' '.join(missing)}. Install with `{hint}`, "
            "or let the rehearsal do it: python -m rehearsal up --install-packages"
        )
    if not shutil.which("apt-get"):
        raise RehearsalError(
            f"missing: {' '.join(missing)}, and this machine has no apt-get to install them with"
        )
    print(f"Installing {' '.join(missing)}", flush=True)
    quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "-qq", "update"], env=quiet, check=False)
    done = subprocess.run(
        ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *missing],
        env=quiet,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or missing_packages():
        raise RehearsalError(f"`{hint}` did not work:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
