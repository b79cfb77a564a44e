"""What a registry says of an image. The rehearsal's mirror is every registry of the small internet."""

import hashlib
import json
import urllib.error
import urllib.request
from pathlib import Path

from .images import Image, PullError

MIRROR = "mirror.rehearsal"


def digest(image: Image) -> str:
    """The digest that the image has there; "" when the mirror does not play this image. An image that is named by its
    digest is only had where it has it."""
    repository, _, wanted = image.name.partition("@")
    name = repository.partition("/")[2] if wanted else repository.partition("/")[2].rpartition(":")[0]
    asked = wanted or image.name.rpartition(":")[2]
    body = _ask(f"https://{MIRROR}/v2/{name}/manifests/{asked}")
    if body is None:
        if not wanted:
            return ""
        raise PullError(_failed(image.name, "not found"))
    found = f"sha256:{hashlib.sha256(body).hexdigest()}"
    try:
        json.loads(body)
    except ValueError:
        raise PullError(_failed(image.name, "unexpected media type text/html")) from None
    if wanted and found != wanted:
        raise PullError(_failed(image.name, f"unexpected commit digest {found}, expected {wanted}"))
    return found


def _failed(name: str, why: str) -> str:
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{name}": '
        f'failed to resolve reference "{name}": {name}: {why}'
    )


def _ask(url: str) -> bytes | None:
    if MIRROR not in Path("/etc/hosts").read_text() and not urllib.request.getproxies().get("https"):
        return None
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, OSError):
        return None
