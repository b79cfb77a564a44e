"""Can this host reach what it will install from? All sources at the same time, with one small GET each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hami_k3s.facts import batch

LIMIT = 4  # seconds for each source; they are asked at the same time


@dataclass(frozen=True)
class Source:
    """Something small at a source. `{arch}` in the URL is the host's architecture, `{platform}` its folder in NVIDIA's
    CUDA repositories (debian12/x86_64). `setting` names another source. `there` is shell that succeeds where the host has
    what it would fetch: such a source is not asked, so that a run that changes nothing needs no network."""

    name: str
    url: str
    setting: str
    there: str = "false"


@dataclass(frozen=True)
class Reached:
    """What came back: `status` is HTTP's, 0 without an answer; `begins` the first bytes, or curl's error."""

    source: Source
    status: int
    seconds: float
    connected: bool
    kind: str = ""
    begins: str = ""


# One line for each source, short enough to be written in one piece by jobs that run at the same time.
_ASK = rf"""case $(uname -m) in aarch64) A=arm64 P=sbsa;; *) A=amd64 P=x86_64;; esac
P=$(. /etc/os-release; printf %s "$ID$VERSION_ID" | tr -d .)/$P
N='
'
ask() {{
  b=$(curl -sSL --connect-timeout 3 --max-time {LIMIT} \
    -w '\n%{{http_code}} %{{time_total}} %{{time_appconnect}} %{{content_type}}' "$2" 2>&1 | tr -d '\000')
  printf '%s|%s|%s\n' "$1" "${{b##*"$N"}}" "$(printf '%.100s' "$b" | tr '\n|' '  ')"
}}"""


def probes(sources: Sequence[Source], proxies: Mapping[str, str] | None = None) -> dict[str, str]:
    """The question; none without sources.

    + proxies: `http_proxy` and the like, as the installation will use them; the login shell's own reach no service.
      Without credentials: a command line can be read by every user of the host.
    """
    if not sources:
        return {}
    calls = ""
    for number, source in enumerate(sources):
        url = shlex.quote(source.url)  # a brace makes it put quotes around
        for name, variable in (("{arch}", "$A"), ("{platform}", "$P")):
            url = url.replace(name, f"'\"{variable}\"'")  # out of the quotes and back
        calls += f"{{ {source.there}; }} >/dev/null 2>&1 || ask {number} {url} &\n"
    set_up = "unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY\n"
    set_up += "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (proxies or {}).items())
    return {"sources": f"command -v curl >/dev/null || exit 127\n{set_up}{_ASK}\n{calls}wait"}


def state(answers: Mapping[str, batch.Answer], sources: Sequence[Source]) -> tuple[Reached, ...] | None:
    """What came back from each source; None when the host could not ask."""
    answer = answers.get("sources", batch.NOTHING)
    if answer.status:
        return None
    found = []
    for line in answer.text.splitlines():
        number, _, rest = line.partition("|")
        words, _, begins = rest.partition("|")
        parts = [*words.split(" ", 3), ""][:4]
        try:
            source, status = sources[int(number)], int(parts[0])
            seconds, connected = float(parts[1]), float(parts[2]) > 0
        except (ValueError, IndexError):
            continue
        found.append(
            Reached(source, status, seconds, connected, parts[3], begins.partition(" 000 ")[0].strip())
        )
    return tuple(sorted(found, key=lambda one: sources.index(one.source)))
