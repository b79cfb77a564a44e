"""containerd's `registries.yaml`: our entries merged into the user's, changed and taken out again without losing theirs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from pyinfra.api import Host, State

from hami_k3s.chart import merged
from hami_k3s.facts import batch
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.remote import run
from hami_k3s.waits import complain

FILE = "/etc/rancher/k3s/registries.yaml"
# What the file was before our entries and with them: root's alone, they hold passwords.
MEMORY = f"{LIBRARY}/registries.json"
# One line: sum of the file as written, sum of what was wanted. It tells "as it should be" without reading a password.
RECORD = f"{LIBRARY}/registries.applied"
BEFORE = f"{FILE}.before-hami-k3s"
HEAD = "# pyinfra-hami-k3s merges k3s_registries into this file; your own entries stay.\n"
Digests = Mapping[str, tuple[str, str]]


def theirs(now: Mapping[str, Any], before: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own document: where `now` still is what we wrote, what was there before; else what they wrote since."""
    own = {key: value for key, value in now.items() if key not in ("mirrors", "configs")}
    for section in ("mirrors", "configs"):
        present, written, earlier = (part.get(section) or {} for part in (now, ours, before))
        kept = {
            host: earlier.get(host) if value == written.get(host) else value
            for host, value in present.items()
        }
        if found := {host: value for host, value in kept.items() if value is not None}:
            own[section] = found
    return own


def _document(text: str) -> Any:
    """A YAML document, {} for an empty one, None for no YAML."""
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError:
        return None


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Registries:
    """The wanted entries, resolved; empty means that none of ours are to be there."""

    wanted: dict[str, Any] = field(repr=False)

    paths = (FILE, RECORD)

    def _record(self, written: str) -> str:
        return f"{written} {_sum(json.dumps(self.wanted, sort_keys=True))}\n"

    def applied(self, found: Digests) -> bool:
        """Is the host as it should be, by the digests of `paths`?"""
        if not self.wanted:
            return RECORD not in found
        file, record = found.get(FILE), found.get(RECORD)
        return bool(file and record and file[1] == "600" and record[0] == _sum(self._record(file[0])))

    def apply(self, state: State, host: Host) -> bool:
        """Merge on the host. False, with the reason, when the user's file cannot be read."""
        from hami_k3s.operations.files import script

        asked = {"file": f"cat {FILE}", "memory": f"cat {MEMORY}", "before": f"cat {BEFORE}"}
        read = run(host, batch.script(asked))
        if not read.ok:
            complain(host, f"{FILE} could not be read: {read.stderr}")
            return False
        answers = batch.parse(read.stdout.splitlines())
        try:
            now = yaml.safe_load(answers.get("file", batch.NOTHING).text) or {}
            if not isinstance(now, dict):
                raise ValueError("it is not a mapping")
        except (yaml.YAMLError, ValueError) as error:
            where = getattr(error, "problem_mark", None)
            line = f", line {where.line + 1}" if where else ""
            complain(host, f"{FILE} is not valid YAML{line}; it is left alone. Correct it and run again")
            return False
        memory = batch.mapping(answers.get("memory", batch.NOTHING).text)
        own = theirs(now, memory.get("theirs") or {}, memory.get("merged") or {})
        whole = merged(own, self.wanted)
        text = HEAD + yaml.safe_dump(whole, sort_keys=True) if whole else ""
        kept = f"[ ! -f {FILE} ] || [ -e {BEFORE} ] || cp -p {FILE} {BEFORE}; "
        if not self.wanted:
            before = answers.get("before", batch.NOTHING)
            if before.status == 0 and _document(before.text) == own:
                back = f"mv -f {BEFORE} {FILE}\n"  # byte for byte as it was
            elif own == now and not answers.get("file", batch.NOTHING).text.startswith(HEAD[:20]):
                back = ""  # none of it is ours
            else:
                back = script({FILE: (text, "600")}) if own else f"rm -f {FILE}\n"
            done = run(host, "sh -s", stdin=f"set -e\n{back}rm -f {BEFORE} {RECORD} {MEMORY}\n")
        else:
            memo = json.dumps({"theirs": own, "merged": whole})
            files = {MEMORY: (memo, "600"), FILE: (text, "600"), RECORD: (self._record(_sum(text)), "600")}
            done = run(host, "sh -s", stdin=kept + "\n" + script(files))
        if not done.ok:
            complain(host, f"{FILE} could not be written: {done.stderr or done.stdout}")
        return done.ok
