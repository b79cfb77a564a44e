"""The four ways to patch an object: JSON patch, merge patch, strategic merge patch and server-side apply."""

import copy
import re
from typing import Any

from .problem import ProblemError

# Lists that are maps: the field's name -> keys that identify an item (the first that the items carry).
LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "port"),
    "conditions": ("type",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
    "webhooks": ("name",),
    "secrets": ("name",),
    "taints": ("key",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "addresses": ("type",),
}


def list_key(field: str, *lists: Any) -> str | None:
    items = [i for one in lists if isinstance(one, list) for i in one]
    if not items or not all(isinstance(i, dict) for i in items):
        return None
    for key in LIST_KEYS.get(field, ()):
        if all(key in i for i in items):
            return key
    return None


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(target: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902."""
    document = copy.deepcopy(target)
    for operation in operations:
        document = _json_operation(document, operation)
    return document


def _walk(document: Any, pointer: str) -> tuple[Any, Any]:
    parts = [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]
    for part in parts[:-1]:
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _absent(pointer) from None
    last: Any = parts[-1]
    if isinstance(document, list):
        last = len(document) if last == "-" else int(last)
    return document, last


def _absent(pointer: str) -> ProblemError:
    return ProblemError(
        422, f"the server rejected our request due to an error in our request: {pointer}", "Invalid"
    )


def _json_operation(document: Any, operation: dict[str, Any]) -> Any:
    action, pointer = operation["op"], operation["path"]
    if pointer == "":
        return copy.deepcopy(operation.get("value"))
    parent, key = _walk(document, pointer)
    try:
        if action == "test":
            if parent[key] != operation.get("value"):
                raise _absent(pointer)
        elif action == "remove":
            del parent[key]
        elif action == "replace":
            _ = parent[key]
            parent[key] = operation.get("value")
        elif action == "add":
            if isinstance(parent, list):
                parent.insert(key, operation.get("value"))
            else:
                parent[key] = operation.get("value")
        elif action in ("move", "copy"):
            source, source_key = _walk(document, operation["from"])
            value = copy.deepcopy(source[source_key])
            if action == "move":
                del source[source_key]
            parent[key] = value
    except (KeyError, IndexError):
        raise _absent(pointer) from None
    return document


def strategic(target: Any, patch: Any, field: str = "") -> Any:
    if isinstance(patch, dict):
        return _strategic_map(target if isinstance(target, dict) else {}, patch)
    if isinstance(patch, list):
        return _strategic_list(target if isinstance(target, list) else [], patch, field)
    return patch


def _strategic_map(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    if patch.get("$patch") == "replace":
        return {k: copy.deepcopy(v) for k, v in patch.items() if k != "$patch"}
    result = dict(target)
    if "$retainKeys" in patch:
        result = {k: v for k, v in result.items() if k in patch["$retainKeys"]}
    for key, value in patch.items():
        directive = re.match(r"\$(setElementOrder|deleteFromPrimitiveList)/(.+)", key)
        if directive:
            if directive[1] == "deleteFromPrimitiveList":
                result[directive[2]] = [v for v in result.get(directive[2], []) if v not in value]
        elif key in ("$patch", "$retainKeys"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(result.get(key), value, key)
    for key, value in patch.items():
        if key.startswith("$setElementOrder/"):
            _order(result, key.split("/", 1)[1], value)
    return result


def _order(result: dict[str, Any], field: str, wanted: list[Any]) -> None:
    items = result.get(field)
    if not isinstance(items, list):
        return
    key = list_key(field, items)
    order = [w.get(key) if isinstance(w, dict) else w for w in wanted]

    def place(item: Any) -> int:
        value = item.get(key) if isinstance(item, dict) and key else item
        return order.index(value) if value in order else len(order)

    result[field] = sorted(items, key=place)


def _strategic_list(target: list[Any], patch: list[Any], field: str) -> list[Any]:
    plain = [i for i in patch if not (isinstance(i, dict) and i.get("$patch") == "replace" and len(i) == 1)]
    if len(plain) != len(patch):
        return copy.deepcopy(plain)
    key = list_key(field, patch)
    if key is None:
        if field == "finalizers":
            return target + [v for v in patch if v not in target]
        return copy.deepcopy(patch)
    result = list(target)
    for item in patch:
        index = next((n for n, old in enumerate(result) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if index is not None:
                del result[index]
        elif index is None:
            result.append({k: v for k, v in item.items() if k != "$patch"})
        else:
            result[index] = _strategic_map(result[index], item)
    return result


def apply(last: Any, wanted: Any, live: Any, field: str = "") -> Any:
    """Server-side apply: set what is wanted, drop what this manager set last time and no longer wants."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        before = last if isinstance(last, dict) else {}
        result = {k: v for k, v in live.items() if k not in before or k in wanted}
        for key, value in wanted.items():
            result[key] = apply(before.get(key), value, live.get(key), key)
        return result
    if isinstance(wanted, list) and isinstance(live, list):
        key = list_key(field, wanted, live)
        if key is None:
            return copy.deepcopy(wanted)
        before = {i[key]: i for i in last or [] if isinstance(i, dict) and key in i}
        mine = {i[key]: i for i in wanted}
        result = []
        for item in live:
            if item[key] in mine:
                result.append(apply(before.get(item[key]), mine[item[key]], item))
            elif item[key] not in before:
                result.append(item)
        known = {i[key] for i in live}
        return result + [copy.deepcopy(i) for i in wanted if i[key] not in known]
    return copy.deepcopy(wanted)
