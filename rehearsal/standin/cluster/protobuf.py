"""A reader for the few Kubernetes protobuf bodies that clients send (Secret, DeleteOptions): wire format, no schema files.

A body is the magic `k8s\\0` and a runtime.Unknown: field 1 TypeMeta, field 2 the object's own bytes.
"""

import base64
import datetime
from typing import Any

from .problem import ProblemError

MAGIC = b"k8s\x00"


def fields(data: bytes) -> dict[int, list[Any]]:
    """Field number -> values, bytes for length-delimited ones and int for varints."""
    found: dict[int, list[Any]] = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        value: Any
        if kind == 0:
            value, position = _varint(data, position)
        elif kind == 2:
            length, position = _varint(data, position)
            value, position = data[position : position + length], position + length
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, position = data[position : position + size], position + size
        else:
            raise ProblemError(400, f"protobuf: unknown wire type {kind}")
        found.setdefault(number, []).append(value)
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    shift = result = 0
    while True:
        byte = data[position]
        result |= (byte & 0x7F) << shift
        position += 1
        if not byte & 0x80:
            return result, position
        shift += 7


def _text(found: dict[int, list[Any]], number: int) -> str:
    return found[number][-1].decode() if number in found else ""


def _pairs(items: list[bytes]) -> dict[str, bytes]:
    pairs = {}
    for item in items:
        entry = fields(item)
        pairs[_text(entry, 1)] = entry[2][-1] if 2 in entry else b""
    return pairs


def _meta(data: bytes) -> dict[str, Any]:
    found = fields(data)
    meta: dict[str, Any] = {}
    for number, name in (
        (1, "name"),
        (2, "generateName"),
        (3, "namespace"),
        (5, "uid"),
        (6, "resourceVersion"),
    ):
        if _text(found, number):
            meta[name] = _text(found, number)
    if 8 in found:
        seconds = fields(found[8][-1]).get(1, [0])[-1]
        when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        meta["creationTimestamp"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    for number, name in ((11, "labels"), (12, "annotations")):
        if number in found:
            meta[name] = {k: v.decode() for k, v in _pairs(found[number]).items()}
    return meta


def _secret(data: bytes) -> dict[str, Any]:
    found = fields(data)
    secret: dict[str, Any] = {"metadata": _meta(found[1][-1]) if 1 in found else {}}
    if 2 in found:
        secret["data"] = {k: base64.b64encode(v).decode() for k, v in _pairs(found[2]).items()}
    secret["type"] = _text(found, 3) or "Opaque"
    if 4 in found:
        secret["stringData"] = {k: v.decode() for k, v in _pairs(found[4]).items()}
    if 5 in found:
        secret["immutable"] = bool(found[5][-1])
    return secret


def _delete_options(data: bytes) -> dict[str, Any]:
    found = fields(data)
    options: dict[str, Any] = {}
    if 1 in found:
        options["gracePeriodSeconds"] = found[1][-1]
    if 4 in found:
        options["propagationPolicy"] = _text(found, 4)
    if 5 in found:
        options["dryRun"] = [v.decode() for v in found[5]]
    return options


# Message -> field number -> (name, kind): "text", "number", "texts", "map" (text to text), "maps of bytes", "meta",
# another message, or a list of them ("[Message]"). Only what clients send in this form.
MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "Namespace": {1: ("metadata", "meta")},
    "ServiceAccount": {1: ("metadata", "meta")},
    "SelfSubjectAccessReview": {1: ("metadata", "meta")},
    "SelfSubjectReview": {1: ("metadata", "meta")},
    "Eviction": {1: ("metadata", "meta")},
    "ConfigMap": {1: ("metadata", "meta"), 2: ("data", "map")},
    "Deployment": {1: ("metadata", "meta"), 2: ("spec", "DeploymentSpec")},
    "DeploymentSpec": {
        1: ("replicas", "number"),
        2: ("selector", "LabelSelector"),
        3: ("template", "PodTemplate"),
    },
    "LabelSelector": {1: ("matchLabels", "map")},
    "Job": {1: ("metadata", "meta"), 2: ("spec", "JobSpec")},
    "JobSpec": {1: ("parallelism", "number"), 2: ("completions", "number"), 6: ("template", "PodTemplate")},
    "PodTemplate": {1: ("metadata", "meta"), 2: ("spec", "PodSpec")},
    "PodSpec": {2: ("containers", "[Container]"), 3: ("restartPolicy", "text")},
    "Container": {1: ("name", "text"), 2: ("image", "text"), 3: ("command", "texts"), 4: ("args", "texts")},
}


def _message(kind: str, data: bytes) -> dict[str, Any]:
    known, found, result = MESSAGES[kind], fields(data), {}
    for number, (name, form) in known.items():
        if number not in found:
            continue
        values = found[number]
        if form == "text":
            value: Any = values[-1].decode()
        elif form == "texts":
            value = [v.decode() for v in values]
        elif form == "number":
            value = values[-1]
        elif form == "map":
            value = {k: v.decode() for k, v in _pairs(values).items()}
        elif form == "meta":
            value = _meta(values[-1])
        elif form.startswith("["):
            value = [_message(form[1:-1], v) for v in values]
        else:
            value = _message(form, values[-1])
        if value != "":
            result[name] = value
    return result


READERS = {
    "Secret": _secret,
    "DeleteOptions": _delete_options,
    **{kind: lambda data, kind=kind: _message(kind, data) for kind in MESSAGES},
}


def decode(body: bytes) -> dict[str, Any]:
    if not body.startswith(MAGIC):
        raise ProblemError(400, "protobuf: the body does not begin with the magic number")
    unknown = fields(body[4:])
    types = fields(unknown[1][-1])
    api_version, kind = _text(types, 1), _text(types, 2)
    reader = READERS.get(kind)
    if reader is None:
        raise ProblemError(
            415, f"the body of the request was in an unknown format - no protobuf reader for {kind}"
        )
    return {"apiVersion": api_version, "kind": kind, **reader(unknown[2][-1] if 2 in unknown else b"")}
