"""The three ways to the same end state, as commands for one fleet file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent


@dataclass(frozen=True)
class Fleet:
    """What `python -m rehearsal up` wrote."""

    path: Path
    hosts: list[dict[str, Any]]
    settings: dict[str, Any]


def fleet(path: Path) -> Fleet:
    """Read a fleet file."""
    data = yaml.safe_load(path.read_text())
    return Fleet(path, data["hosts"], data["settings"])


def sources(of: Fleet) -> dict[str, str]:
    """The versions and sources, the same for all contenders."""
    return {
        "toolkit_url": of.settings["toolkit_repository_url"],
        "toolkit_version": "1.19.1",
        "k3s_url": of.settings["k3s_release_url"],
        "k3s_version": "v1.36.2+k3s1",
        "helm_url": of.settings["helm_release_url"],
        "helm_version": "v4.2.3",
        "hami_url": of.settings["hami_chart_repository"],
        "hami_version": "2.9.0",
    }


def program(name: str) -> str:
    """A command of the environment that runs this."""
    return str(Path(sys.executable).with_name(name))


def pyinfra(of: Fleet, deploy: str) -> tuple[list[str], dict[str, str]]:
    """(command, environment) of this project."""
    return [program("pyinfra"), "inventory.py", deploy, "-y"], {
        "GPU_FLEET": str(of.path),
        "PYINFRA_PROGRESS": "off",
    }


def shell(of: Fleet, folder: Path) -> tuple[list[str], dict[str, str]]:
    """One ssh per host, all at once, each with the plain script on its stdin."""
    exports = "\n".join(f"export {key.upper()}={value!r}" for key, value in sources(of).items())
    (folder / "plain.sh").write_text(f"{exports}\n{(HERE / 'plain.sh').read_text()}")
    lines = ["pids="]
    for host in of.hosts:
        command = (
            f"ssh -q -o BatchMode=yes -o UserKnownHostsFile={host['ssh_known_hosts_file']} -i {host['ssh_key']} "
            f"-p {host['ssh_port']} {host['ssh_user']}@{host['ssh_hostname']} bash -s"
        )
        lines.append(f'{command} <{folder}/plain.sh >{folder}/{host["name"]}.log 2>&1 & pids="$pids $!"')
    lines += ["status=0", "for pid in $pids; do wait $pid || status=1; done", "exit $status"]
    (folder / "all.sh").write_text("\n".join(lines))
    return ["bash", str(folder / "all.sh")], {}


def _ansible() -> Path:
    """In an environment of its own, which `make bench` makes; else wherever it is."""
    for folder in REPOSITORY / ".venv-bench" / "bin", Path(sys.executable).parent:
        if (folder / "ansible-playbook").exists():
            return folder / "ansible-playbook"
    if found := shutil.which("ansible-playbook"):
        return Path(found)
    raise SystemExit("ansible-playbook is missing: `make bench` installs it, or leave it out with --only")


def ansible_version() -> str:
    """ansible-core's."""
    said = subprocess.run([_ansible(), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("\n")[0].rpartition(" ")[2].rstrip("]")


def ansible(of: Fleet, folder: Path) -> tuple[list[str], dict[str, str]]:
    """ansible-playbook with pipelining and as many forks as hosts."""
    entries = {
        host["name"]: {
            "ansible_host": host["ssh_hostname"],
            "ansible_port": host["ssh_port"],
            "ansible_user": host["ssh_user"],
            "ansible_ssh_private_key_file": host["ssh_key"],
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={host['ssh_known_hosts_file']}",
        }
        for host in of.hosts
    }
    inventory = folder / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": entries, "vars": sources(of)}}))
    command = [
        str(_ansible()),
        "-i",
        str(inventory),
        "--forks",
        str(len(of.hosts)),
        str(HERE / "ansible" / "site.yml"),
    ]
    return command, {
        "ANSIBLE_CONFIG": str(HERE / "ansible" / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "ansible"),
    }
