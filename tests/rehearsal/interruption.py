"""Runs that are killed at a chosen moment, and what a node looks like when the job is done, whatever came before."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.rehearsal.deploying import (
    GPU_NODE,
    REPOSITORY,
    RESET,
    Ran,
    command,
    deploy,
    environment,
    fleet,
    start,
)

# verify's pods run.
PODS = 'KUBECACHEDIR=/run/look-cache k3s kubectl get pods -A 2>/dev/null | grep -q "hami-share-a .*Running"'
RESET_ALL = {"reset_k3s": "true", "reset_toolkit": "true"}
# The node waits by itself, in a tight loop: what must be hit lasts a fraction of a second.
WAIT = "timeout 60 sh -c 'until {0}; do sleep 0.02; done'"
# The deploy as it is, in a process that is killed the hard way. Nothing of this is in the product.
WRAPPER = """
import os, signal, subprocess
from pyinfra import local
from pyinfra.api.state import BaseStateCallback
from pyinfra.context import ctx_state


class Kill(BaseStateCallback):
    begun = 0

    def operation_start(self, state, op_hash):
        Kill.begun += 1
        if Kill.begun == {inside}:
            # Only while it still is the child of this process: the number may be somebody else's by then.
            own = str(os.getpid())
            kill = 'sleep {seconds}; [ "$(cut -d " " -f 4 /proc/$$/stat)" = ' + own + " ] && kill -9 " + own
            subprocess.Popen(["sh", "-c", kill], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)

    def operation_end(self, state, op_hash):
        if Kill.begun == {after}:
            os.kill(os.getpid(), signal.SIGKILL)


state = ctx_state.get()
if not any(type(one).__name__ == "Kill" for one in state.callback_handlers):
    state.add_callback_handler(Kill())
local.include({deploy!r})
"""


@dataclass(frozen=True)
class Moment:
    """Kill after operation `after` (counted from 1), or `seconds` after operation `inside` has begun."""

    after: int = 0
    inside: int = 0
    seconds: float = 0.0


def killed(folder: Path, fleet_file: Path, what: str, moment: Moment) -> str | None:
    """Runs a deploy until it is killed then: the operation at work; None when it came to its end before."""
    folder.mkdir(exist_ok=True)
    wrapper = folder / "killed.py"
    wrapper.write_text(
        WRAPPER.format(deploy=what, after=moment.after, inside=moment.inside, seconds=f"{moment.seconds:.3f}")
    )
    reports = folder / f"reports-{moment.after}-{moment.inside}"
    done = subprocess.run(
        command(str(wrapper), "--data", f"report_folder={reports}"),
        cwd=REPOSITORY,
        env=environment(fleet_file),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode == 0:
        return None
    assert done.returncode == -signal.SIGKILL, done.stdout
    last = [one for one in trail(reports) if one["event"] in ("begins", "ended")]
    return str(last[-1]["operation"]).removeprefix(f"{what} | ") if last else "nothing"


def lose_sessions(node: Any) -> None:
    """Every SSH session of the node ends, as when a firewall forgets them."""
    kill = "sleep 0.1; pkill -KILL -f '^sshd: [a-z]+(@| .priv)'"
    node.run(f'setsid sh -c "{kill}" </dev/null >/dev/null 2>&1 &')


def disturbed(
    node: Any, file: Path, what: str, moment: str, act: Callable[[Any], object], **data: object
) -> Ran:
    """Starts a deploy, waits on the node for the shell condition `moment`, then does something to the node."""
    process = start(
        file, what, *(word for key, value in data.items() for word in ("--data", f"{key}={value}"))
    )
    if not node.run(WAIT.format(moment)).ok:
        process.kill()
        raise AssertionError(f"{node.name}: {moment} never came: {process.communicate()[0]}")
    act(node)
    said, _ = process.communicate(timeout=400)
    return Ran(process.returncode, said)


def trail(reports: Path) -> list[dict[str, Any]]:
    """The lines of the one run that left its trail there."""
    (file,) = reports.glob("*/trail.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def durations(reports: Path) -> list[tuple[str, float]]:
    """(operation, its seconds on the slowest host), in order."""
    found: dict[str, float] = {}
    for one in trail(reports):
        if one["event"] == "ended":
            found[one["operation"]] = max(found.get(one["operation"], 0.0), one["seconds"])
    return list(found.items())


def together(*jobs: Any) -> list[Any]:
    """Each of these functions in a thread; their results."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


@dataclass(frozen=True)
class Whole:
    """What a node looks like after a run that nothing disturbed, and what its operations took."""

    looks: list[str]
    steps: list[tuple[str, float]]

    def somewhere(self, chance: random.Random) -> Moment:
        """A moment inside an operation; one that takes less than a few hundredths of a second has no inside."""
        inside = [number for number, (_, seconds) in enumerate(self.steps, 1) if seconds >= 0.05]
        number = chance.choice(inside)
        return Moment(inside=number, seconds=chance.random() * self.steps[number - 1][1])


@dataclass(frozen=True)
class Undisturbed:
    """A bare machine became a GPU node, and then a bare machine again."""

    converge: Whole
    reset: Whole


def undisturbed(folder: Path, node: Any) -> Undisturbed:
    """Does both on this node."""
    done = []
    for what, data in ((GPU_NODE, {}), (RESET, RESET_ALL)):
        reports = folder / Path(what).stem
        ran = deploy(fleet(folder / "fleet.yaml", node, report_folder=str(reports)), what, **data)
        assert ran.status == 0, ran.text
        done.append(Whole(looks(node), durations(reports)))
    return Undisturbed(*done)


# What differs between machines that are equally done: names, keys, certificates, times; and what HAMi keeps of pods.
OWN = (
    "etc/ssh/*", "etc/machine-id", "etc/hostname", "etc/hosts", "etc/systemd/network/*", "etc/rancher/k3s/k3s.yaml",
    "etc/rancher/node/password", "etc/ssl/certs/*", "usr/local/vgpu/*", "etc/.pwd.lock", "root/.ssh/*",
)  # fmt: skip
JSONPATH = "-o jsonpath='{range .items[*]}%s{\"\\n\"}{end}'"
RELEASE = JSONPATH % "release {.metadata.labels.name} {.metadata.labels.status}"
POD = JSONPATH % "pod {.metadata.namespace} {.spec.containers[*].image} {.status.phase}"
NODE = JSONPATH % "node {.metadata.labels.gpu} {.status.nodeInfo.kubeletVersion} {.status.allocatable}"
LOOK = f"""
export KUBECACHEDIR=/run/look-cache
cd /
files() {{ find "$@" -xdev ! -type d {" ".join(f"! -path '{path}'" for path in OWN)} 2>/dev/null | sort; }}
files etc usr/local opt root srv | while read -r f; do
    if [ -L "$f" ]; then echo "file $f -> $(readlink "$f")"
    else echo "file $f $(stat -c '%a %U' "$f") $(sha256sum <"$f" | cut -c 1-16)"; fi
done
files tmp var/tmp | grep -v systemd-private | sed -E 's/[.][A-Za-z0-9]{{6,}}$/.X/; s/^/name /'
dpkg-query -W -f 'package ${{Package}} ${{Version}} ${{db:Status-Want}} ${{db:Status-Status}}\\n' | grep nvidia
echo "dpkg $(dpkg --audit | wc -l) $(ls /var/lib/dpkg/updates | wc -l)"
systemctl list-units --plain --no-legend --all 'hami-k3s-*' | sed 's/^/unit /'
systemctl list-units --plain --no-legend --state=failed | sed 's/^/failed /'
flock -n /run/hami-k3s.lock true && echo "lock free"
command -v k3s >/dev/null || exit 0
echo "k3s $(systemctl is-enabled k3s) $(systemctl is-active k3s) $(systemctl show -p NeedDaemonReload k3s)"
[ "$(/usr/local/lib/hami-k3s/k3s-inputs)" = "$(cat /run/hami-k3s/k3s.inputs)" ] && echo "k3s runs with what is there"
k3s kubectl get secrets -A -l owner=helm {RELEASE} | grep -v superseded
KUBECONFIG=/etc/rancher/k3s/k3s.yaml helm get values hami -n kube-system | sed 's/^/values /'
k3s kubectl get pods -A {POD} | sort
k3s kubectl get nodes {NODE}
k3s kubectl get namespaces -o name
"""


def looks(node: Any) -> list[str]:
    """Everything about a node that a run decides, line by line; equal on machines that are equally done."""
    said = node.run("bash -s", stdin=LOOK)
    assert said.ok, said.stderr
    assert said.stderr == "", said.stderr
    return str(said.stdout).splitlines()


def difference(before: list[str], after: list[str]) -> list[str]:
    """`-` and `+` lines; empty when a node looks as another one."""
    gone, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
    return [*(f"- {line}" for line in gone), *(f"+ {line}" for line in new)]


def finish(
    folder: Path, nodes: list[Any], what: str, wanted: list[str], **data: object
) -> dict[str, list[str]]:
    """The same command for all of these nodes, once and once more: node -> what is not as it should be then.

    The first run must come to its end, the second must change nothing, and the node must look as `wanted`.
    """
    folder.mkdir(exist_ok=True)
    said = {}
    for number in ("first", "second"):
        reports = folder / f"reports-{number}"
        file = fleet(folder / "fleet.yaml", *nodes, report_folder=str(reports))
        said[number] = deploy(file, what, **data), trail(reports)
    problems: dict[str, list[str]] = {}
    for node, found in zip(nodes, together(*(partial(looks, node) for node in nodes)), strict=True):
        first, second = (said[number][1][-1]["hosts"][node.name] for number in said)
        again = [one for one in said["second"][1] if one["event"] == "ended" and one["host"] == node.name]
        problems[node.name] = [
            *(
                [f"the next run: {first}\n{said['first'][0].on(node.name)}"]
                if first["result"] != "ok"
                else []
            ),
            *([f"one more run: {second}"] if second["result"] != "ok" else []),
            *(
                f"one more run: {one['operation']}: {one['result']}"
                for one in again
                if one["result"] != "no change"
            ),
            *difference(wanted, found),
        ]
    return problems
