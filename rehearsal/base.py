"""The tree every node and every container image starts from: a small Debian 12 with systemd and SSH."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rehearsal import cache
from rehearsal.errors import RehearsalError

SUITE = "bookworm"
PACKAGES = ["systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "ca-certificates", "curl", "gnupg"]
PACKAGES += ["iproute2", "procps", "kmod", "util-linux", "openssl"]
PACKAGES += ["python3", "python3-aiohttp", "python3-yaml", "python3-cryptography"]
# On every cloud image, and what configuration tools use there.
PACKAGES += ["python3-apt"]
# Run inside the new tree. The timers would take apt's lock behind the deploy's back; firstboot would ask questions.
SETTLE = """
useradd --create-home --shell /bin/bash ubuntu
echo 'ubuntu ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/90-ubuntu; chmod 0440 /etc/sudoers.d/90-ubuntu
install -d -m 0700 /root/.ssh; install -d -m 0700 -o ubuntu -g ubuntu /home/ubuntu/.ssh
rm -f /etc/ssh/ssh_host_* /etc/machine-id /etc/hostname /etc/resolv.conf /var/lib/dbus/machine-id
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99mmdebstrap
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /usr/share/man /usr/share/doc /usr/share/locale
install -d /var/lib/apt/lists/partial
systemctl mask systemd-firstboot.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  fstrim.timer systemd-networkd-wait-online.service
systemctl enable systemd-networkd.service ssh.service
printf 'UseDNS no\\n' > /etc/ssh/sshd_config.d/10-rehearsal.conf
"""


def _sources() -> list[str]:
    """This machine's own sources for the suite, so that its mirror is used; none: mmdebstrap's default."""
    listing = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(COMPONENT)",
            "Created-By: Packages",
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    lines = []
    for row in sorted(set(listing.split())):
        origin, _, rest = row.partition("|")
        codename, uri, component = [*rest.split("|"), "", ""][:3]
        if origin == "Debian" and codename.startswith(SUITE) and component == "main":
            lines.append(f"deb {uri} {codename} main")
    return lines if any(line.split()[2] == SUITE for line in lines) else []


def _apt_options() -> list[str]:
    """Proxy and TLS settings of this machine's apt; mmdebstrap reads none of them by itself."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    wanted = ("Proxy", "CaInfo", "Verify-Peer", "Timeout", "Retries")
    return [
        f"--aptopt={line.rstrip(';')}"
        for line in dump.splitlines()
        if line.startswith("Acquire::")
        and '""' not in line
        and any(word in line.split()[0] for word in wanted)
    ]


def _build(folder: Path) -> None:
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        *_apt_options(),
    ]
    command += [
        f"--customize-hook=chroot \"$1\" sh -ec '{_quoted(SETTLE)}'",
        SUITE,
        str(folder / "root"),
        *_sources(),
    ]
    print("Making the base tree of the nodes (once, about half a minute)", flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RehearsalError(
            f"mmdebstrap could not make a Debian {SUITE} tree. If this machine reaches Debian through a mirror or a "
            f"proxy, name it in apt's own configuration.\n{done.stderr[-2500:]}"
        )


def _quoted(script: str) -> str:
    return script.replace("'", "'\\''")


def tree() -> Path:
    """The base tree's folder, from the cache."""
    return cache.entry("base", cache.digest(SUITE, PACKAGES, SETTLE), _build) / "root"
