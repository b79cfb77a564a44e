"""What is outdated in a lock, what does not fit together, and what no longer matches its sum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from hami_k3s import releases
from hami_k3s.releases import lockfile
from hami_k3s.releases.fetch import FetchError
from hami_k3s.releases.lockfile import Lock
from hami_k3s.releases.resolve import Upstream, newest
from hami_k3s.settings import Settings


@dataclass(frozen=True)
class Finding:
    """`ok`, `outdated`, `incompatible`, `changed` (another sum than locked), `unknown` (could not be asked)."""

    kind: Literal["ok", "outdated", "incompatible", "changed", "unknown"]
    text: str


def fits(constraint: str, version: str) -> bool | None:
    """Does a version satisfy a chart's kubeVersion like `>= 1.18.0-0, < 2`? None when it is not understood."""
    terms = re.findall(r"(>=|<=|>|<|=|)\s*v?(\d+(?:\.\d+){0,2})(?:-[\w.]+)?", constraint)
    if re.sub(r"(>=|<=|>|<|=|)\s*v?(\d+(?:\.\d+){0,2})(?:-[\w.]+)?[\s,]*", "", constraint.strip()):
        return None
    have = releases.numbers(version.split("+", maxsplit=1)[0])
    tests: dict[str, Callable[[tuple[int, ...]], bool]] = {
        ">=": lambda want: have >= want,
        "<=": lambda want: have <= want,
        ">": lambda want: have > want,
        "<": lambda want: have < want,
        "=": lambda want: have == want,
        "": lambda want: have == want,
    }
    return all(tests[operator]((*releases.numbers(number), 0, 0)[:3]) for operator, number in terms)


def incompatible(lock: Lock) -> Iterator[str]:
    """What does not fit together; needs no network."""
    if lock.hami and lock.k3s and lock.hami.kube_version:
        answer = fits(lock.hami.kube_version, lock.k3s.version)
        if answer is False:
            yield f"chart hami {lock.hami.version} wants Kubernetes {lock.hami.kube_version}, k3s is {lock.k3s.version}"
        elif answer is None:
            yield f"chart hami {lock.hami.version} wants Kubernetes {lock.hami.kube_version}: not understood, compare by hand"
    for setting, version in lock.versions().items():
        try:
            Settings(**{setting: version})  # type: ignore[arg-type]
        except ValidationError as error:
            yield f"{setting} {version}: {error.errors()[0]['msg'].removeprefix('Value error, ')}"


def differing(before: object, now: object, path: str = "") -> Iterator[str]:
    """`path: lock says A, upstream says B` for every value that is not the same."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from differing(before.get(key), now.get(key), f"{path}.{key}".lstrip("."))
    elif before != now and before is not None and not path.endswith((".url", "kube_version")):
        yield f"{path}: the lock says {before}, upstream says {now}"


def check(lock: Lock, upstream: Upstream) -> Iterator[Finding]:
    """Every finding, asked from upstream part by part: one that does not answer hides nothing of the others."""
    for text in incompatible(lock):
        yield Finding("incompatible", text)
    asked: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("k3s", lambda: _k3s(lock, upstream)),
        ("helm", lambda: _helm(lock, upstream)),
        ("toolkit", lambda: _toolkit(lock, upstream)),
        ("hami", lambda: _hami(lock, upstream)),
        ("images", lambda: _images(lock, upstream)),
    ]
    for part, ask in asked:
        if not getattr(lock, part):
            yield Finding("unknown", f"{part}: not locked")
            continue
        try:
            yield from ask()
        except FetchError as error:
            kind: Literal["changed", "unknown"] = "changed" if "refused" in str(error) else "unknown"
            yield Finding(kind, f"{part}: {error}")


def _part(name: str, before: lockfile._Part, now: lockfile._Part, version: str) -> Iterator[Finding]:
    found = list(differing(before.model_dump(), now.model_dump(), name))
    for text in found:
        yield Finding("changed", text)
    if not found:
        yield Finding("ok", f"{name} {version}".rstrip() + ": every sum is upstream's")


def _age(name: str, have: str, latest: str) -> Iterator[Finding]:
    if releases.numbers(latest.removeprefix("v")) > releases.numbers(have.removeprefix("v")):
        yield Finding("outdated", f"{name} {have}: {latest} is out")


def _k3s(lock: Lock, upstream: Upstream) -> Iterator[Finding]:
    assert lock.k3s is not None
    yield from _part("k3s", lock.k3s, upstream.k3s(lock.k3s.version, list(lock.k3s.files)), lock.k3s.version)
    yield from _age("k3s", lock.k3s.version, upstream.k3s_version("stable"))


def _helm(lock: Lock, upstream: Upstream) -> Iterator[Finding]:
    assert lock.helm is not None
    yield from _part(
        "helm", lock.helm, upstream.helm(lock.helm.version, list(lock.helm.files)), lock.helm.version
    )
    yield from _age("helm", lock.helm.version, upstream.helm_newest(lock.helm.version))


def _toolkit(lock: Lock, upstream: Upstream) -> Iterator[Finding]:
    assert lock.toolkit is not None
    version, architectures = lock.toolkit.version, list(lock.toolkit.packages)
    yield from _part("toolkit", lock.toolkit, upstream.toolkit(version, architectures), version)
    yield from _age("toolkit", version, newest(upstream.apt(architectures[0]).packages).split("-")[0])


def _hami(lock: Lock, upstream: Upstream) -> Iterator[Finding]:
    assert lock.hami is not None
    yield from _part("hami", lock.hami, upstream.chart(lock.hami.version)[0], lock.hami.version)
    if not upstream.settings.hami_chart_repository.startswith("oci://"):
        stable = [version for version in upstream.charts() if re.fullmatch(r"\d+\.\d+\.\d+", version)]
        yield from _age("hami", lock.hami.version, max(stable, key=releases.numbers))


def _images(lock: Lock, upstream: Upstream) -> Iterator[Finding]:
    for name, image in lock.images.items():
        now = upstream.registries.resolve(name, list(image.manifests))
        yield from _part(f"image {name}", image, now, "")
