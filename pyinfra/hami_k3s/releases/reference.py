"""An image's name in its parts. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Reference:
    """`registry.k8s.io/kube-scheduler:v1.36.2` in its parts; `tag` may be a digest."""

    registry: str
    repository: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """The full form: a name without a registry is docker.io's."""
        rest, _, digest = text.partition("@")
        first, slash, more = rest.partition("/")
        if not slash or not ("." in first or ":" in first or first == "localhost"):
            first, more = "docker.io", rest if slash else f"library/{rest}"
        name, _, tag = more.rpartition(":") if ":" in more.rsplit("/", 1)[-1] else (more, "", "latest")
        return cls(first, name, digest or tag)

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if ':' in self.tag else ':'}{self.tag}"

    @property
    def digest(self) -> str | None:
        """The digest, when it is named by one."""
        return self.tag if DIGEST.fullmatch(self.tag) else None


def full(text: str) -> str:
    """`python:3.12-slim` -> `docker.io/library/python:3.12-slim`, the key of a lock's images; a digest is left out."""
    return str(Reference.parse(text.partition("@")[0]))
