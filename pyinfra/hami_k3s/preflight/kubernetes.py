"""What else is on the host or in its cluster: other Kubernetes, other device plugins, an older HAMi."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from hami_k3s import releases
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.preflight.entry import Found, Look, Unknown, entry

SERVICE, AGENT = "/etc/systemd/system/k3s.service", "/etc/systemd/system/k3s-agent.service"
OURS = "Written by pyinfra-hami-k3s"
ROLE_FIX = (
    "Take it out there first (kubectl drain, kubectl delete node), then run deploys/reset.py with "
    "--data reset_k3s=true, as what it was"
)
STUCK = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling", "failed")


@entry(
    "second-device-plugin",
    "blocks",
    "Something else serves nvidia.com/gpu",
    why="Two device plugins fight for one socket: cards are handed out whole, without any limit.",
    fix="HAMi must be alone: remove NVIDIA's device plugin or the GPU Operator, manifests in "
    "/var/lib/rancher/k3s/server/manifests included",
)
def second_device_plugin(look: Look) -> Iterator[Found | Unknown]:
    inside = look.cluster.providers if look.cluster else ()
    if inside is None:
        yield Unknown("the API server of the running k3s does not answer")
    found = (*look.state.providers, *(inside or ()))
    if found:
        yield Found(f"something else serves nvidia.com/gpu: {'; '.join(found)}")


@entry(
    "operator-leftover",
    "blocks",
    "A GPU Operator left its toolkit",
    why="k3s looks in /usr/local/nvidia/toolkit first and would run what is left there.",
    fix="Remove it: rm -r /usr/local/nvidia/toolkit",
)
def operator_leftover(look: Look) -> Iterator[Found]:
    if look.state.operator_toolkit:
        yield Found(
            "/usr/local/nvidia/toolkit is there, left by a GPU Operator; k3s would take its runtime first"
        )


@entry(
    "other-kubelet",
    "blocks",
    "Another Kubernetes runs here",
    why="Two kubelets fight for ports, cgroups and the card.",
    fix="Remove it, or take a fresh machine",
)
def other_kubelet(look: Look) -> Iterator[Found]:
    if look.state.kubelets:
        yield Found(f"another Kubernetes runs here: {', '.join(look.state.kubelets)}")


@entry(
    "k3s-newer",
    "blocks",
    "A newer k3s is installed",
    why="k3s cannot go back to an older version: its datastore has moved on.",
    fix="Set k3s_version to the installed version or a later one",
)
def k3s_newer(look: Look) -> Iterator[Found]:
    now, want = look.state.k3s, look.settings.k3s_version
    if now and releases.numbers(now) > releases.numbers(want):
        yield Found(
            f"k3s {now} is installed, newer than {want}; k3s cannot go back", f"Set k3s_version: {now}"
        )


@entry(
    "k3s-older",
    "warns",
    "An older k3s is installed",
    why="It is upgraded in place; Kubernetes does not support leaving out a minor version.",
    fix="deploys/upgrade.py does it node by node and loses nobody's pods; one minor version at a time (k3s_version)",
)
def k3s_older(look: Look) -> Iterator[Found]:
    now, want = look.state.k3s, look.settings.k3s_version
    if now and releases.numbers(now) < releases.numbers(want):
        steps = releases.numbers(want)[1] - releases.numbers(now)[1]
        more = f", {steps} minor versions at once" if steps > 1 else ""
        yield Found(f"k3s {now} is installed and becomes {want}{more}")


def _flags(unit: str) -> list[str]:
    """Arguments of `k3s server` in a unit, beside those that this project sets in a file."""
    joined = re.sub(r"\\\n\s*", " ", unit)
    match = re.search(r"^ExecStart=\S+\s+server(.*)$", joined, re.MULTILINE)
    words = match.group(1).replace("'", "").split() if match else []
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word.startswith("--write-kubeconfig-mode"):
            if "=" not in word and words:
                words.pop(0)
            continue
        kept.append(word)
    return kept


def _foreign(look: Look) -> str | None:
    """The text of a k3s.service that somebody else wrote."""
    unit = look.state.k3s_units.get(SERVICE)
    return unit if unit is not None and OURS not in unit else None


@entry(
    "k3s-foreign",
    "warns",
    "k3s was installed by another tool",
    why="Its unit and binary are taken over; what its installer set beside them stays.",
    fix="Nothing to do for a plain installation; settings belong in /etc/rancher/k3s/config.yaml, which is kept",
)
def k3s_foreign(look: Look) -> Iterator[Found]:
    link, unit = look.state.k3s_link, _foreign(look)
    foreign_binary = look.state.k3s is not None and link is not None and not link.startswith(LIBRARY)
    if (unit is not None and not _flags(unit)) or (unit is None and foreign_binary):
        yield Found(
            f"k3s at {link or '/usr/local/bin/k3s'} and its unit are another installer's; they are taken over"
        )


@entry(
    "k3s-flags",
    "blocks",
    "The installed k3s is started with arguments that would be lost",
    why="The unit is replaced, and with it the arguments: datastore, networks or disabled parts would change.",
    fix="Write them in /etc/rancher/k3s/config.yaml (same names without --), restart k3s, remove them from the unit",
)
def k3s_flags(look: Look) -> Iterator[Found]:
    unit = _foreign(look)
    if unit is not None and (flags := _flags(unit)):
        # An argument's value may be a secret (--token): the names are enough.
        names = [word.split("=")[0] for word in flags if word.startswith("-")]
        yield Found(f"{SERVICE} starts k3s with {' '.join(names) or 'further arguments'}")


@entry(
    "k3s-other-cluster",
    "blocks",
    "This host belongs to another k3s cluster",
    why="It would be taken away from that cluster with everything that runs on it.",
    fix="Take it out there first (kubectl drain, kubectl delete node), then run k3s-agent-uninstall.sh here",
)
def k3s_other_cluster(look: Look) -> Iterator[Found]:
    agent, role = look.state.k3s_units.get(AGENT), look.settings.k3s_role
    if agent is not None and OURS not in agent:
        yield Found(f"{AGENT} is there: this host is an agent of another cluster")
    elif agent is not None and role == "server":
        yield Found("this host is an agent, and shall become a server", ROLE_FIX)
    elif SERVICE in look.state.k3s_units and role == "agent":
        yield Found("this host is a k3s server, and shall become an agent", ROLE_FIX)
    elif look.state.k3s_joined:
        yield Found(f"/etc/rancher/k3s/config.yaml joins {look.state.k3s_joined}")


@entry(
    "hami-elsewhere",
    "blocks",
    "HAMi is installed under another release or namespace",
    why="A second HAMi would register the same cards and answer the same webhook.",
    fix="Set hami_release and hami_namespace to that installation, or uninstall it",
)
def hami_elsewhere(look: Look) -> Iterator[Found]:
    want = (look.settings.hami_namespace, look.settings.hami_release)
    for one in (look.cluster.hami if look.cluster else ()) or ():
        if (one.namespace, one.release) != want:
            yield Found(
                f"{one.chart or 'HAMi'} is installed as release {one.release or '(none)'} in namespace {one.namespace}"
            )


@entry(
    "hami-version",
    "warns",
    "HAMi of another version is installed",
    why="It is replaced; GPU pods that run during that may crash.",
    fix="deploys/upgrade.py empties node by node first; or set hami_chart_version to the installed one",
)
def hami_version(look: Look) -> Iterator[Found]:
    for one in (look.cluster.hami if look.cluster else ()) or ():
        wanted = f"hami-{look.settings.hami_chart_version}"
        if (
            one.chart.startswith("hami-")
            and one.chart != wanted
            and one.release == look.settings.hami_release
        ):
            yield Found(f"{one.chart} is installed and becomes {wanted}")


@entry(
    "helm-stuck",
    "warns",
    "HAMi's Helm release is stuck",
    why="helm refuses to work on a release whose last operation did not end; it is rolled back or removed first.",
    fix="Nothing to do: the installation recovers it. By hand: helm rollback or helm uninstall",
)
def helm_stuck(look: Look) -> Iterator[Found]:
    want = (look.settings.hami_namespace, look.settings.hami_release)
    for one in (look.cluster.releases if look.cluster else ()) or ():
        if (one.namespace, one.release) == want and one.status in STUCK:
            yield Found(f"revision {one.number} of release {one.release} is {one.status}")


def _registered(text: str) -> set[str]:
    """UUIDs in hami.io/node-nvidia-register, JSON (2.8 and later) or text."""
    try:
        devices = json.loads(text)
    except ValueError:
        devices = None
    if isinstance(devices, list):
        return {str(one.get("id")) for one in devices if isinstance(one, dict)}
    return set(re.findall(r"GPU-[0-9a-f-]{36}", text))


@entry(
    "hami-annotations",
    "warns",
    "The node carries stale annotations of HAMi",
    why="HAMi's scheduler believes them: it counts on cards that are gone, or leaves the node out.",
    fix="Restart the plugin (kubectl -n kube-system rollout restart ds hami-device-plugin); without a HAMi: "
    "kubectl annotate node NODE hami.io/node-nvidia-register- hami.io/node-handshake- hami.io/mutex.lock-",
)
def hami_annotations(look: Look) -> Iterator[Found]:
    given = (look.cluster.annotations if look.cluster else None) or {}
    own = {card.uuid for card in look.state.nvidia.cards or ()}
    gone = sorted(_registered(given.get("hami.io/node-nvidia-register", "")) - own)
    if gone and look.state.nvidia.cards is not None:
        yield Found(f"registered cards that are not in this host: {', '.join(gone)}")
    if given.get("hami.io/node-handshake", "").startswith("Deleted_"):
        yield Found(f"HAMi's scheduler left the node out: {given['hami.io/node-handshake']}")
    lock, now = given.get("hami.io/mutex.lock", "").split(",")[0], look.cluster.now if look.cluster else None
    if lock and now is not None:
        try:
            since = datetime.fromisoformat(lock)
        except ValueError:
            return
        age = now - (since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp()
        if age > 300:
            yield Found(f"the node has been locked for {age:.0f} s (hami.io/mutex.lock)")
