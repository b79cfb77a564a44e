"""A store that may be a copy: where another process decides, it sends every change there and takes over what comes back.

Reading is local, as through a client's cache. A change is sent with the version it was made from, and made again from
the newer object when somebody was faster. While nobody can be reached changes are kept and sent later, as kubelet keeps
the status of its pods.
"""

import copy
import http.client
import json
import ssl
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from . import clock, log, problem
from .problem import ProblemError
from .resources import Resource, storage_key
from .store import Store

Object = dict[str, Any]
ATTEMPTS = 30  # as often somebody else may be faster
KEPT = 5000  # changes made while nobody can be reached


class UnreachableError(Exception):
    """Nobody who decides can be reached now."""


class Upstream(Protocol):
    def call(self, request: Object) -> Object: ...


class Nobody:
    """Between two leaders."""

    def call(self, request: Object) -> Object:
        raise UnreachableError


class Remote:
    """Changes over one kept connection. It blocks: a change is done or refused when the call returns."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, seconds: float = 12.0) -> None:
        self.host, self.port, self.context, self.seconds = host, port, context, seconds
        self.term = 0
        self.open = False  # set once the copy is whole, cleared at the first failure
        self._connection: http.client.HTTPSConnection | None = None

    def call(self, request: Object) -> Object:
        if not self.open:
            raise UnreachableError
        body = json.dumps({**request, "term": self.term})
        reused = self._connection is not None
        try:
            return self._once(body)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if not reused:
                self.close()
                raise UnreachableError from None
        except (OSError, http.client.HTTPException, ValueError) as broken:
            self.close()
            raise UnreachableError from broken
        try:  # the kept connection had been closed meanwhile
            self._connection = None
            return self._once(body)
        except (OSError, http.client.HTTPException, ValueError) as broken:
            self.close()
            raise UnreachableError from broken

    def _once(self, body: str) -> Object:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self.host, self.port, timeout=self.seconds, context=self.context
            )
        self._connection.request("POST", "/rehearsal/write", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise OSError(f"{answer.status}: {data[:200]!r}")
        found: Object = json.loads(data)
        if found.get("resync"):
            raise OSError("the copy is of another leader's time")
        return found

    def close(self) -> None:
        self.open = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Replica(Store):
    upstream: Upstream | None = None  # None: this process decides

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.backlog: list[Callable[[], Any]] = []

    # --- changes

    def create(self, resource: Resource | str, obj: Object) -> Object:
        if self.upstream is None:
            return super().create(resource, obj)
        key, typed = _key(resource)
        try:
            return self._ask({"op": "create", "key": key, "typed": typed, "obj": obj}) or obj
        except UnreachableError:
            self._later(lambda: self._create_if_free(resource, obj))
        mine = copy.deepcopy(obj)
        mine["metadata"].update(uid=str(uuid.uuid4()), creationTimestamp=clock.stamp())
        return self._local(key, mine)

    def _create_if_free(self, resource: Resource | str, obj: Object) -> None:
        meta = obj["metadata"]
        if self.get(resource, meta.get("namespace", ""), meta["name"]) is None:
            self.create(resource, obj)

    def update(self, resource: Resource | str, obj: Object) -> Object:
        if self.upstream is None:
            return super().update(resource, obj)
        meta = obj["metadata"]
        found = self.modify(resource, meta.get("namespace", ""), meta["name"], lambda o: _become(o, obj))
        if found is None:
            raise KeyError(meta["name"])
        return found

    def modify(
        self, resource: Resource | str, namespace: str, name: str, change: Callable[[Object], Any]
    ) -> Object | None:
        if self.upstream is None:
            return super().modify(resource, namespace, name, change)
        key, _ = _key(resource)
        for _ in range(ATTEMPTS):
            old = self.get(resource, namespace, name)
            if old is None:
                return None
            fresh = copy.deepcopy(old)
            change(fresh)
            if fresh == old:
                return old
            try:
                answer = self._ask({"op": "update", "key": key, "obj": fresh})
            except UnreachableError:
                self._later(lambda: self.modify(resource, namespace, name, change))
                return self._local(key, fresh)
            if answer is not None:
                return answer
        raise problem.conflict(key, name)

    def remove(self, resource: Resource | str, namespace: str, name: str) -> Object | None:
        if self.upstream is None:
            return super().remove(resource, namespace, name)
        key, _ = _key(resource)
        try:
            return self._ask({"op": "remove", "key": key, "namespace": namespace, "name": name})
        except UnreachableError:
            self._later(lambda: self.remove(resource, namespace, name))
        gone = self._of(key).pop((namespace or "", name), None)
        self._wake()
        return gone

    def _ask(self, request: Object) -> Object | None:
        assert self.upstream is not None
        answer = self.upstream.call({**request, "version": self.version})
        self.take(answer["entries"])
        if "problem" in answer:
            raise ProblemError(*answer["problem"])
        found: Object | None = answer.get("obj")
        return found

    def _later(self, change: Callable[[], Any]) -> None:
        if len(self.backlog) < KEPT:
            self.backlog.append(change)

    def _local(self, key: str, obj: Object) -> Object:
        """Seen here alone until it can be sent."""
        obj["metadata"]["resourceVersion"] = "local"
        self._of(key)[(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])] = obj
        self._wake()
        return obj

    def replay(self) -> None:
        """Sends what was kept; a change whose object is gone is dropped."""
        kept, self.backlog = self.backlog, []
        for change in kept:
            try:
                change()
            except (ProblemError, KeyError) as refused:
                log.warning(f"a change kept from before was refused: {refused}")

    # --- what others changed

    def _wake(self) -> None:
        self.changed.set()
        for listener in self.listeners:
            listener.set()

    def take(self, entries: list[Any]) -> None:
        for version, action, key, obj in entries:
            if version <= self.version:
                continue
            self.version = version
            self.log.append((version, action, key, obj))
            self.dirty = True
            if action == "APPLIED":
                self.applied[key[1:]] = obj["body"]
                continue
            address = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if action == "DELETED":
                self._of(key).pop(address, None)
                self._forget_applied(key, *address)
            else:
                self._of(key)[address] = obj
        if entries:
            self._wake()

    def restore(self, content: Object) -> None:
        """Becomes that copy; watches see what differs, or begin anew where versions were taken back."""
        fresh: dict[str, dict[tuple[str, str], Object]] = {}
        changes: list[tuple[int, str, str, Object]] = []
        for key, items in content["objects"].items():
            fresh[key] = {(o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in items}
        for key in {*self.objects, *fresh}:
            old, new = self.objects.get(key, {}), fresh.get(key, {})
            for address in old.keys() - new.keys():
                changes.append((content["version"], "DELETED", key, copy.deepcopy(old[address])))
            for address, obj in new.items():
                version = obj["metadata"]["resourceVersion"]
                if address not in old or old[address]["metadata"]["resourceVersion"] != version:
                    action = "MODIFIED" if address in old else "ADDED"
                    changes.append((int(version), action, key, obj))
        changes.sort(key=lambda c: c[0])
        if changes and changes[0][0] <= self.version:
            self.log.clear()
            self.epoch += 1
        else:
            self.log.extend(changes)
        self.objects, self.applied, self.version = fresh, content["applied"], content["version"]
        self.dirty = True
        self._wake()


def _key(resource: Resource | str) -> tuple[str, bool]:
    return (resource, False) if isinstance(resource, str) else (storage_key(resource), True)


def _become(obj: Object, wanted: Object) -> None:
    version = obj["metadata"].get("resourceVersion")
    obj.clear()
    obj.update(copy.deepcopy(wanted))
    obj["metadata"]["resourceVersion"] = version


class _Typed:
    """Enough of a Resource for Store.create, which numbers the generations of typed objects."""

    def __init__(self, key: str) -> None:
        self.key, self.group, self.plural = key, key.rpartition("/")[0], key.rpartition("/")[2]


def perform(store: Store, request: Object) -> Object:
    """Does what a copy asked for; the answer has every change since the copy's version."""
    key, answer = request["key"], {}
    try:
        if request["op"] == "create":
            resource: Any = _Typed(key) if request["typed"] else key
            answer["obj"] = store.create(resource, request["obj"])
        elif request["op"] == "remove":
            answer["obj"] = store.remove(key, request["namespace"], request["name"])
        else:
            obj = request["obj"]
            old = store.get(key, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if old is not None and old["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
                answer["obj"] = store.update(key, obj)
    except ProblemError as refused:
        answer["problem"] = [refused.code, refused.message, refused.reason, refused.details]
    entries = store.since(request["version"])
    return (
        {"resync": True}
        if entries is None or request["version"] > store.version
        else {**answer, "entries": entries}
    )
