"""What is written on a host is known to the reset: every path in templates and library is a trace, or is only read."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from hami_k3s import traces

REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARY = REPOSITORY / "pyinfra" / "hami_k3s"
# What a text of this project may name without writing it, and why.
READ = {  # [*] is a star in the text itself
    "/etc/apt/sources.list": "the user's own sources; one that stood aside is a trace",
    "/etc/apt/sources.list.d/": "the same",
    "/etc/apt/sources.list.d/[*]*": "the same",
    "/etc/environment": "proxies of the machine",
    "/etc/machine-id": "which machine it is",
    "/etc/systemd/system": "the folder of the unit; k3s.service and k3s-agent.service are traces",
    "/etc/default*": "the user's own environment of k3s",
    "/etc/sysconfig*": "the user's own environment of k3s",
    "/etc/ld.so.preload": "inside pods",
    "/etc/os-release": "which system it is",
    "/etc/rancher/k3s/config.yaml": "the user's own configuration",
    "/etc/rancher/k3s/registries.yaml": "ours in, ours out: operations/registries.py",
    "/etc/rancher/k3s": "a folder, removed when empty",
    "/etc/rancher": "a folder, removed when empty",
    "/etc/rancher/k3s/config.yaml.d": "a folder, removed when empty",
    "/etc/rancher/k3s/config.yaml.d/[*].y*ml": "the user's own drop-ins",
    "/etc/ssl/certs/ca-certificates.crt": "what update-ca-certificates writes",
    "/etc/systemd/system/k3s": "how our units begin",
    "/etc/systemd/system/k3s.service.env": "another installer's, removed with k3s",
    "/etc/ufw/*": "the firewall's rules",
    "/run/netns/cni*": "taken down by k3s-killall.sh",
    "/run/hami-k3s": "of the steps; `settled` removes it",
    "/run/hami-k3s/*": "of the steps; `settled` removes it",
    "/run/hami-k3s.lock": "held by the run that would remove it; gone at the next boot",
    "/run/cloud-init/*": "is the first boot over?",
    "/var/run/reboot-required": "is a reboot due?",
    "/usr/local/bin": "a folder",
    "/usr/local/lib/hami-k3s": "a folder, removed when empty",
    "/usr/local/lib/hami-k3s/helm": "any version of it",
    "/usr/local/nvidia/toolkit": "what a GPU Operator leaves",
    "/usr/local/share/ca-certificates": "the folder of ours",
    "/var/cache/apt*": "apt's own",
    "/var/lib/apt/*": "apt's own",
    "/var/lib/dpkg/*": "dpkg's own",
    "/var/lib/containerd": "room on its disk",
    "/var/lib/hami-k3s/bundle": "a folder, removed when empty",
    "/var/lib/rancher": "a folder, removed when empty",
    "/tmp/hami-k3s-probe*": "inside pods",
}  # fmt: skip
NAMED = re.compile(r"(?<![\w.}])/(?:etc|usr/local|var|run|opt|root|srv|tmp)/[\w./*+-]*[\w*]")
PATTERNS = [
    *(pattern for some in (traces.PATHS, traces.MADE) for patterns in some.values() for pattern in patterns),
    *traces.MARKED,
    *(f"/usr/local/bin/{name}" for name in traces.LINKS),
]


def texts() -> list[Path]:
    """What runs on a host."""
    templates = [path for path in (REPOSITORY / "templates").rglob("*") if path.is_file()]
    code = [
        path
        for part in ("operations", "stages", "facts", "proof", "releases")
        for path in (LIBRARY / part).glob("*.py")
    ]
    code += [path for path in LIBRARY.glob("*.py") if path.name != "traces.py"]
    return [path for path in [*templates, *code] if "report" not in path.parts]


def named(text: str) -> set[str]:
    """Every path in it, as far as its last pattern."""
    return {name.rstrip("*") for name in NAMED.findall(text)}


def known(path: str) -> bool:
    """Is it a trace, something below one, or only read?"""
    return any(fnmatchcase(path, one) or fnmatchcase(path, f"{one}/*") for one in PATTERNS) or any(
        fnmatchcase(path, one) for one in READ
    )


@pytest.mark.parametrize("path", texts(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_path_is_known_to_the_reset(path: Path) -> None:
    unknown = {name for name in named(path.read_text(encoding="utf-8")) if not known(name)}
    assert not unknown, "name them in traces.py, or in READ with the reason why they are not removed"


def test_every_reason_is_used() -> None:
    there = {name for path in texts() for name in named(path.read_text(encoding="utf-8"))}
    assert not [one for one in READ if not any(fnmatchcase(name, one) for name in there)]


def test_a_new_path_would_be_found() -> None:
    (name,) = named('put("/etc/hami-k3s/new.conf")')
    assert not known(name)
