"""The Kubernetes API asked with one curl for many objects: a kubectl or helm process for each would cost seconds.

Works on a k3s server, with the admin certificate that k3s keeps there (root only), over the loopback.
"""

from __future__ import annotations

import json
import shlex
from base64 import b64decode
from collections.abc import Mapping
from gzip import decompress
from typing import Any
from urllib.parse import quote

from hami_k3s.facts import batch

TLS = "/var/lib/rancher/k3s/server/tls"
_CERTIFICATES = f"--cacert {TLS}/server-ca.crt --cert {TLS}/client-admin.crt --key {TLS}/client-admin.key"
_OPTIONS = f'-s --max-time 20 {_CERTIFICATES} -w "$w"'
# After each answer: HTTP's status, curl's own, and batch's separator.
_WRITE = "w=$(printf '\\n%%{http_code}/%%{exitcode}\\036.') && w=${w%.}"
KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
# Before the paths: k3s may listen on another port.
_SERVER = f'while read -r k s; do [ "$k" != server: ] || break; done <{KUBECONFIG}'


def listing(path: str, selector: str = "") -> str:
    """A path with a label selector."""
    return f"{path}?labelSelector={quote(selector)}" if selector else path


def script(paths: Mapping[str, str], posts: Mapping[str, tuple[str, object]] | None = None) -> str:
    """Shell that prints answers as `batch.script` does, with one curl and one connection for all of them; HTTP's status
    stands for the exit status: 0 for 2xx, 44 for 404, else 22.

    + paths: name -> path to GET
    + posts: name -> (path, JSON to POST), for dry runs
    """
    asked = " ".join(f"$s{shlex.quote(path)}" for path in paths.values())
    for path, body in (posts or {}).values():
        data = shlex.quote(json.dumps(body))
        asked += f" --next {_OPTIONS} -H 'Content-Type: application/json' -d {data} $s{shlex.quote(path)}"
    names = " ".join([*paths, *(posts or {})])
    ask = f"{_SERVER}; {_WRITE}; curl {_OPTIONS} {asked}"
    return f"printf '%s=' '{names}'; {{ {ask}; }} 2>/dev/null </dev/null | base64 | tr -d '\\n'; echo"


def helm_secrets(namespace: str, release: str) -> str:
    """Path of the release's revisions that are not superseded: normally the one that is deployed."""
    selector = f"owner=helm,name={release},status notin (superseded)"
    return listing(f"/api/v1/namespaces/{quote(namespace)}/secrets", selector)


def helm_release(secret: Mapping[str, Any]) -> dict[str, Any]:
    """What helm stored in one of its Secrets. Errors: ValueError when it is not helm's."""
    try:
        data = json.loads(decompress(b64decode(b64decode(secret["data"]["release"]))))
    except (KeyError, TypeError, OSError, EOFError) as error:
        raise ValueError(f"not a Helm release: {error}") from error
    if not isinstance(data, dict):
        raise ValueError("not a Helm release")
    return data


def server_version(answers: Mapping[str, batch.Answer]) -> str | None:
    """gitVersion in the answer to /version named "version"; None when the server did not answer."""
    found = batch.mapping(answers.get("version", batch.NOTHING).value).get("gitVersion")
    return str(found) if found else None


def reason(answer: batch.Answer) -> str:
    """Why the API refused, in its own words where it had any."""
    message = batch.mapping(answer.text).get("message")
    return str(message) if message else answer.text.strip()[:200] or "the API server does not answer"
