"""Keys made once a cache: the rehearsal's own CA with the mirror's certificate, and two repository keys (one wrong)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rehearsal import cache
from rehearsal.errors import RehearsalError

MIRROR_NAME = "mirror.rehearsal"
# Names that the mirror answers to besides, inside (inside.py): those whose sources no setting of the fleet file replaces.
UPSTREAM = ("update.k3s.io", "registry-1.docker.io", "registry.k8s.io")
REPOSITORY_KEYS = ("right", "wrong")


def run(command: list[str], **options: object) -> str:
    """Standard output; a failure is a RehearsalError with what the command said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise RehearsalError(
            f"`{' '.join(command)}` exited {done.returncode}: {(done.stderr or done.stdout)[-2000:]}"
        )
    return str(done.stdout)


def ssh_key(path: Path, comment: str) -> str:
    """Makes an SSH key pair at `path` and returns the public key's line."""
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
    return Path(f"{path}.pub").read_text()


def gpg(home: Path, *arguments: str) -> str:
    """gpg in a home of its own; its agent is ended at once, since nothing may stay running."""
    environment = dict(os.environ, GNUPGHOME=str(home))
    try:
        return run(["gpg", "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", *arguments],
                   env=environment)  # fmt: skip
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], env=environment, capture_output=True, check=False)


def _build(folder: Path) -> None:
    authority, extensions = folder / "ca.crt", folder / "server.ext"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"]
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    run(["openssl", "req", "-x509", *curve, "-subj", "/CN=Rehearsal CA", *usage, "-keyout", str(folder / "ca.key"),
         "-out", str(authority)])  # fmt: skip
    names = ",".join(f"DNS:{name}" for name in (MIRROR_NAME, *UPSTREAM))
    extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n")
    run(["openssl", "req", "-new", *curve[:5], "-subj", f"/CN={MIRROR_NAME}", "-keyout", str(folder / "server.key"),
         "-out", str(folder / "server.csr")])  # fmt: skip
    run(["openssl", "x509", "-req", "-in", str(folder / "server.csr"), "-CA", str(authority), "-CAkey",
         str(folder / "ca.key"), "-CAcreateserial", "-days", "3650", "-extfile", str(extensions), "-out",
         str(folder / "server.crt")])  # fmt: skip
    for name in REPOSITORY_KEYS:
        home = folder / name
        home.mkdir(mode=0o700)
        gpg(
            home,
            "--quick-generate-key",
            f"Rehearsal repository ({name}) <{name}@{MIRROR_NAME}>",
            "rsa2048",
            "sign",
            "never",
        )
        (home / "gpgkey").write_text(gpg(home, "--armor", "--export"))


def folder() -> Path:
    """`ca.crt`, `server.crt`, `server.key`, and a gpg home with its `gpgkey` for each of `right` and `wrong`."""
    return cache.entry("keys", "2", _build)


def fingerprint(name: str = "right") -> str:
    """The full fingerprint of a repository key, 40 hex digits."""
    listing = gpg(folder() / name, "--with-colons", "--list-keys")
    return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))
