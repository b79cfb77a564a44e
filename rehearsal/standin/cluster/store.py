"""All objects of the cluster: in memory, with a change log for watches, saved to one file.

Objects in the store are never changed in place; take a copy (`modify` does), change it, put it back.
"""

import asyncio
import copy
import json
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import clock, problem
from .resources import Resource, storage_key

Object = dict[str, Any]
LOG_LENGTH = 4000


class Store:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.objects: dict[str, dict[tuple[str, str], Object]] = {}
        self.applied: dict[str, Object] = {}  # what each field manager applied last, by key/ns/name/manager
        self.version = 1
        self.log: deque[tuple[int, str, str, Object]] = deque(maxlen=LOG_LENGTH)
        self.changed = asyncio.Event()
        self.listeners: set[asyncio.Event] = set()
        self.dirty = False
        self.epoch = 0  # grows when versions were taken back: watches then have to begin anew

    # --- reading

    def get(self, resource: Resource | str, namespace: str, name: str) -> Object | None:
        return self._of(resource).get((namespace or "", name))

    def need(self, resource: Resource, namespace: str, name: str) -> Object:
        found = self.get(resource, namespace, name)
        if found is None:
            raise problem.not_found(resource.plural, name, resource.group)
        return found

    def select(self, resource: Resource | str, namespace: str = "") -> list[Object]:
        items = self._of(resource)
        return [o for (ns, _), o in sorted(items.items()) if not namespace or ns == namespace]

    def in_order(self, resource: Resource | str) -> list[Object]:
        """Oldest first: the order in which they were created."""
        return list(self._of(resource).values())

    def _of(self, resource: Resource | str) -> dict[tuple[str, str], Object]:
        key = resource if isinstance(resource, str) else storage_key(resource)
        return self.objects.setdefault(key, {})

    def all(self) -> Iterator[tuple[str, Object]]:
        for key, items in list(self.objects.items()):
            for obj in list(items.values()):
                yield key, obj

    # --- writing

    def create(self, resource: Resource | str, obj: Object) -> Object:
        obj = copy.deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        address = (meta.get("namespace", ""), meta["name"])
        if address in self._of(resource):
            plural = resource if isinstance(resource, str) else resource.plural
            raise problem.already_exists(
                plural, meta["name"], "" if isinstance(resource, str) else resource.group
            )
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = clock.stamp()
        meta.pop("deletionTimestamp", None)
        if "spec" in obj and not isinstance(resource, str):
            meta["generation"] = 1
        return self._put("ADDED", resource, obj)

    def update(self, resource: Resource | str, obj: Object) -> Object:
        """Put a changed copy back; unchanged content changes nothing."""
        old = self._of(resource).get((obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
        if old is None:
            raise KeyError(obj["metadata"]["name"])
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if obj == old:
            return old
        if "generation" in old["metadata"]:
            changed = obj.get("spec") != old.get("spec")
            obj["metadata"]["generation"] = old["metadata"]["generation"] + (1 if changed else 0)
        return self._put("MODIFIED", resource, obj)

    def modify(
        self, resource: Resource | str, namespace: str, name: str, change: Callable[[Object], Any]
    ) -> Object | None:
        old = self.get(resource, namespace, name)
        if old is None:
            return None
        fresh = copy.deepcopy(old)
        change(fresh)
        return self.update(resource, fresh)

    def remove(self, resource: Resource | str, namespace: str, name: str) -> Object | None:
        gone = self._of(resource).pop((namespace or "", name), None)
        if gone is None:
            return None
        key = resource if isinstance(resource, str) else storage_key(resource)
        self._forget_applied(key, namespace, name)
        gone = copy.deepcopy(gone)
        self._record("DELETED", key, gone)
        return gone

    def _forget_applied(self, key: str, namespace: str, name: str) -> None:
        for entry in [k for k in self.applied if k.startswith(f"{key}|{namespace}|{name}|")]:
            del self.applied[entry]

    def remember_applied(self, entry: str, body: Object) -> None:
        """What a field manager applied; in the change log under a key of its own, so that copies have it too."""
        self.applied[entry] = body
        self._record("APPLIED", f"~{entry}", {"metadata": {}, "body": body})

    def _put(self, action: str, resource: Resource | str, obj: Object) -> Object:
        key = resource if isinstance(resource, str) else storage_key(resource)
        self._record(action, key, obj)
        self._of(resource)[(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])] = obj
        return obj

    def _record(self, action: str, key: str, obj: Object) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, action, key, obj))
        self.dirty = True
        self.changed.set()
        for listener in self.listeners:
            listener.set()

    def since(self, version: int) -> list[tuple[int, str, str, Object]] | None:
        """Changes after a version; None when the log no longer reaches back that far."""
        if version > self.version:
            return []
        oldest = self.log[0][0] if self.log else self.version + 1
        if version < oldest - 1:
            return None
        return [entry for entry in self.log if entry[0] > version]

    # --- the file

    def load(self) -> None:
        if not self.path.exists():
            return
        content = json.loads(self.path.read_text())
        self.version = content["version"]
        self.applied = content.get("applied", {})
        for key, items in content["objects"].items():
            for obj in items:
                meta = obj["metadata"]
                self.objects.setdefault(key, {})[(meta.get("namespace", ""), meta["name"])] = obj

    def content(self) -> Object:
        objects = {key: list(items.values()) for key, items in self.objects.items() if items}
        return {"version": self.version, "applied": self.applied, "objects": objects}

    def save(self) -> None:
        if not self.dirty:
            return
        self.dirty = False
        content = json.dumps(self.content())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".new")
        scratch.touch(mode=0o600)
        scratch.write_text(content)
        scratch.replace(self.path)

    async def keep_saved(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            self.save()
