"""What can be broken on purpose, by name, and which part plays it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rehearsal import breakage
from rehearsal.errors import RehearsalError

MIRROR = {
    "wrong-key": "gpgkey and the repository are another key's (=repository: only the signatures are)",
    "bad-checksum": "the k3s binary does not match its sha256sum file",
    "html-key": "gpgkey answers 200 with an HTML page",
    "mirror-down": "every request is answered 503",
    "slow": "every answer takes N seconds (=N, default 20)",
    "truncated": "downloads over 64 KiB end half-way",
    "portal": "every request is sent to a login page that answers 200 (=http: to one without TLS)",
    "html": "every request (=END: of a path with that end) is answered 200 with a login page",
    "endless": "answers go on for ever, 4 KB a second",
    "stale-index": "the package and chart indexes are older ones that lack today's versions, rightly signed",
    "rollback": "k3s and helm are older ones under today's names, with sums that agree",
    "republished": "the HAMi chart has other bytes under the same version, with an index that agrees",
    "retagged": "HAMi's image is another one under its tag, and the one from before is gone",
    "bomb": "helm's archive unpacks to far more than helm, with sums that agree",
}
NODE = {
    "no-gpu": "no card, no driver",
    "mig": "the cards report MIG mode Enabled",
    "apt-lock": "another process holds dpkg's lock for N seconds after boot or after the fault is added (=N, default 45)",
    "cut": "the node's network is cut off until the fault is cleared (on a running node, with --node)",
    "slow-node": "SSH answers N seconds late (=N, default 1) and images take ten times as long",
    "wrong-token": "somebody else's drop-in gives k3s the token of another cluster",
    "runc-default": "containerd's rendered config names runc as the default runtime",
    "second-device-plugin": "NVIDIA's own device plugin is in k3s' manifests folder and wins nvidia.com/gpu",
}
CLUSTER = {
    "registered-nothing": "HAMi's plugin runs but registers no card",
    "webhook-late": "the webhook gets endpoints only after N seconds (=N, default 3600)",
    "limit-not-enforced": "HAMi-core is loaded and reports the slice, but refuses nothing",
    "overask-scheduled": "the scheduler places a pod that does not fit",
    "preload-missing": "pods start without HAMi-core in ld.so.preload",
    "preload-other": "ld.so.preload of pods names a library that is not there",
    "slice-not-shown": "HAMi-core is loaded and refuses, but nvidia-smi in a pod shows the whole card",
    "neighbour-harmed": "what other pods hold of the card is counted against a pod's slice",
    "managed-not-counted": "HAMi-core does not count managed memory",
    "control-refused": "HAMi-core is loaded in pods that opted out of it, too",
    "grant-halved": "HAMi grants half of what a pod asks for",
    "slices-never-freed": "the scheduler goes on counting pods that are gone",
    "no-request-sees-card": "pods that ask for no GPU are given every card",
    "lost-after-restart": "pods that start after the next restart of k3s have no HAMi-core",
    "webhook-passes": "the webhook answers, and lets GPU pods go to the default scheduler",
    "unhealthy-card": "HAMi registers its cards as unhealthy",
    "node-not-ready": "the node is NotReady",
    "evicts": "pods outside kube-system are evicted after N seconds (=N, default 3)",
    "scheduler-image": "the running kube-scheduler's image is not the server's version",
}
ALL = MIRROR | NODE | breakage.ALL | CLUSTER


def name_of(fault: str) -> str:
    """`webhook-late=15` -> `webhook-late`."""
    return fault.partition("=")[0]


def check(faults: Iterable[str]) -> list[str]:
    """The faults, each known; a value given for one replaces an earlier one."""
    kept: dict[str, str] = {}
    for fault in faults:
        name = name_of(fault)
        if name not in ALL:
            near = difflib.get_close_matches(name, ALL, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise RehearsalError(f"unknown fault {name!r}.{hint} Known: {', '.join(sorted(ALL))}")
        kept[name] = fault
    return list(kept.values())


def changed(current: Iterable[str], add: Iterable[str], clear: Iterable[str]) -> list[str]:
    """The list after a `fault add` or `fault clear`; clearing `all` empties it."""
    gone = set(clear)
    if "all" not in gone:
        check(gone)
    kept = [] if "all" in gone else [f for f in current if name_of(f) not in {name_of(c) for c in gone}]
    return check([*kept, *add])
