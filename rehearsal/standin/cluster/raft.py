"""Who of several servers decides: terms, votes and a majority, as in etcd, with k3s' own election timeout of 5 s.

The one that leads has the store that counts; the others follow it with a whole copy and then every change. A change is
answered for when a majority has it. Without a majority nobody leads, and the API has no answer.
"""

import asyncio
import contextlib
import json
import random
import ssl
import time
from typing import Any

import aiohttp

from . import log, paths, pki
from .replica import Nobody, Remote, Replica
from .stream import follow

Object = dict[str, Any]
MEMBERS = "rehearsal/members"
ELECTION = 5.0  # s without a word from the leader
TIMED_OUT = "etcdserver: request timed out"


class RemovedError(Exception):
    """This server is no member any more."""


class Raft:
    def __init__(self, store: Replica, name: str, address: str, embedded: bool) -> None:
        self.store, self.name, self.address = store, name, address
        self.embedded = embedded  # etcd; otherwise this is the only server there is
        self.term = self.last_term = 0
        self.voted = ""
        self.leader = name if not embedded else ""
        self.heard = time.monotonic() - ELECTION if not embedded else 0.0
        self.acks: dict[str, tuple[int, float]] = {}
        self.hints: dict[str, str] = {}  # members known before the first copy is here
        self.acked = asyncio.Event()
        self.synced = not embedded
        self.hurry = False  # the leader goes and asked this server to follow it
        self.context: ssl.SSLContext | None = None
        self.session: aiohttp.ClientSession | None = None
        self.file = paths.on_node(f"{paths.ETCD}/member/raft.json")
        if embedded:
            with contextlib.suppress(OSError, ValueError):
                kept = json.loads(self.file.read_text())
                self.term, self.voted, self.last_term = kept["term"], kept["voted"], kept["last_term"]
            store.upstream = Nobody()

    # --- members

    def members(self) -> dict[str, Object]:
        return {m["metadata"]["name"]: m for m in self.store.select(MEMBERS)}

    def voters(self) -> list[str]:
        return [name for name, member in self.members().items() if not member["learner"]]

    def peers(self) -> dict[str, str]:
        found = {name: member["address"] for name, member in self.members().items()} or dict(self.hints)
        found.pop(self.name, None)
        return found

    def found(self) -> None:
        """The first server's cluster of one."""
        self.store.upstream = None
        member = {"metadata": {"name": self.name}, "address": self.address, "learner": False}
        self.store.create(MEMBERS, member)
        self.store.upstream = Nobody()

    @property
    def leads(self) -> bool:
        return self.leader == self.name

    @property
    def available(self) -> bool:
        """A leader is known, and it has a majority."""
        if not self.embedded:
            return True
        if self.leads:
            return self._majority(lambda name: time.monotonic() - self.acks.get(name, (0, 0.0))[1] < ELECTION)
        return self.synced and bool(self.leader) and time.monotonic() - self.heard < ELECTION

    def _majority(self, agrees: Any) -> bool:
        voters = self.voters()
        return sum(1 for name in voters if name == self.name or agrees(name)) > len(voters) // 2

    async def committed(self, version: int, seconds: float = 10.0) -> bool:
        """A majority has everything up to that version."""
        if not self.embedded:
            return True
        end = time.monotonic() + seconds
        while self.leads and not self._majority(lambda name: self.acks.get(name, (0, 0.0))[0] >= version):
            self.acked.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.acked.wait(), 0.5)
            if time.monotonic() > end:
                return False
        return self.leads

    async def wait_available(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self.available:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.1)
        return True

    def ack(self, name: str, version: int) -> None:
        self.acks[name] = (version, time.monotonic())
        self.acked.set()
        member = self.members().get(name)
        if (
            self.leads
            and member
            and member["learner"]
            and version >= int(member["metadata"]["resourceVersion"])
        ):
            self.store.modify(MEMBERS, "", name, lambda o: o.update(learner=False))
            log.info(f"Promoted member {name} to voter")

    # --- time

    def _keep(self) -> None:
        kept = {"term": self.term, "voted": self.voted, "last_term": self.last_term}
        pki.write_private(self.file, json.dumps(kept).encode())

    def vote(self, asked: Object) -> Object:
        """Answers a candidate. One that only asks beforehand (`pre`) changes nothing here: a server that was cut off for a
        while has no right to a new term as long as the others have a leader."""
        live = self.leader and self.leader != asked["name"] and self.available and not asked["hurry"]
        complete = (asked["last_term"], asked["version"]) >= (self.last_term, self.store.version)
        if asked["pre"]:
            return {"granted": bool(not live and complete and asked["term"] > self.term), "term": self.term}
        if asked["term"] > self.term and not live:
            self._step_down(asked["term"])
        good = not live and complete and asked["term"] == self.term and self.voted in ("", asked["name"])
        if good:
            self.voted, self.heard = asked["name"], time.monotonic()
            self._keep()
        return {"granted": bool(good), "term": self.term}

    def _step_down(self, term: int) -> None:
        if self.leads:
            log.error("leaderelection lost for k3s: this server does not lead any more")
        self.leader, self.synced = "", False
        self.store.upstream = Nobody()
        if term > self.term:
            self.term, self.voted = term, ""
            self._keep()

    async def run(self) -> None:
        """For ever: lead, follow, or find out who does."""
        if not self.embedded:
            await asyncio.Event().wait()
        patience = 0.0 if self.voters() == [self.name] else ELECTION + random.uniform(0, 2)
        self.heard = time.monotonic()
        while True:
            if self.leads:
                if self.name not in self.members():
                    raise RemovedError(f"this server is a not a member of the etcd cluster: {self.name}")
                if not self.available:
                    self._step_down(self.term)
                    self.heard, patience = time.monotonic(), ELECTION + random.uniform(0, ELECTION)
                await asyncio.sleep(0.2)
                continue
            found = None if self.hurry else await self._look()
            if found:
                await self._follow(*found)
                patience = 0.0 if self.hurry else ELECTION + random.uniform(0, ELECTION)
            elif time.monotonic() - self.heard > patience and self.name in self.voters():
                await self._campaign()
                self.heard, patience = time.monotonic(), random.uniform(1, ELECTION)
            await asyncio.sleep(0.2)

    async def resign(self) -> None:
        """A leader that is stopped hands over to whoever has most of its changes."""
        others = [n for n in self.voters() if n != self.name]
        if self.embedded and self.leads and others:
            heir = max(others, key=lambda name: self.acks.get(name, (0, 0.0)))
            await self.post(self.peers()[heir], "/rehearsal/heir", {})
            self._step_down(self.term)

    async def post(self, address: str, path: str, body: Object) -> Object | None:
        assert self.session is not None
        limit = aiohttp.ClientTimeout(total=1.5)
        with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError, ValueError, OSError):
            url = f"https://{address}{path}"
            async with self.session.post(url, json=body, ssl=self.context, timeout=limit) as answer:
                if answer.status == 200:
                    found: Object = await answer.json()
                    return found
        return None

    async def _look(self) -> tuple[str, str] | None:
        """Name and address of whoever leads, as the others say."""
        peers = self.peers()
        answers = await asyncio.gather(
            *(self.post(a, "/rehearsal/who", {"name": self.name}) for a in peers.values())
        )
        best = max((a for a in answers if a and a["leader"]), key=lambda a: a["term"], default=None)
        if best is None or best["leader"] == self.name or best["term"] < self.term:
            return None
        return best["leader"], best["address"]

    def who(self) -> Object:
        address = self.address if self.leads else self.peers().get(self.leader, "")
        return {"leader": self.leader if self.available else "", "term": self.term, "address": address}

    async def _asked(self, term: int, pre: bool) -> bool:
        """Would, or does, a majority have this server?"""
        asked = {"name": self.name, "term": term, "pre": pre, "hurry": self.hurry}
        asked |= {"last_term": self.last_term, "version": self.store.version}
        voters, peers = [n for n in self.voters() if n != self.name], self.peers()
        answers = await asyncio.gather(*(self.post(peers[n], "/rehearsal/vote", asked) for n in voters))
        newest = max((a["term"] for a in answers if a), default=0)
        if newest > term:
            self._step_down(newest)
        granted = 1 + sum(1 for a in answers if a and a["granted"])
        return newest <= term and granted > (len(voters) + 1) // 2

    async def _campaign(self) -> None:
        if not await self._asked(self.term + 1, True):
            self.hurry = False
            return
        self.term, self.voted = self.term + 1, self.name
        self._keep()
        term = self.term
        won = await self._asked(term, False)
        self.hurry = False
        if not won or self.term != term:
            return
        voters = [n for n in self.voters() if n != self.name]
        now = time.monotonic()
        self.leader, self.last_term, self.synced = self.name, self.term, True
        self.acks = {name: (0, now) for name in voters}
        self.store.upstream = None
        self._keep()
        log.info(f"{self.name} became leader at term {self.term}")
        self.store.replay()

    async def _follow(self, leader: str, address: str) -> None:
        """Until the connection ends or the leader is silent."""
        assert self.session is not None
        assert self.context is not None
        host, _, port = address.rpartition(":")
        remote = Remote(host, int(port), pki.peer_context(), 3.0)

        def heard(message: Object) -> None:
            if message["term"] < self.term:
                raise ConnectionError("the leader is of an older term")
            if message["term"] > self.term:
                self.term, self.voted = message["term"], ""
            if "snapshot" in message:
                self.last_term, self.leader, self.synced = message["term"], leader, True
                self.store.upstream = remote
                self._keep()
                log.info(f"following {leader} at term {self.term}")
            self.heard = time.monotonic()

        url = f"https://{address}/rehearsal/stream?peer={self.name}"
        try:
            await follow(self.session, url, self.context, self.store, remote, heard, ELECTION)
        except aiohttp.WSServerHandshakeError as refused:
            if refused.status == 403:
                names = ", ".join(f"{n}={a}" for n, a in self.members().items())
                raise RemovedError(
                    f"this server is a not a member of the etcd cluster. Found [{names}], expect: {self.name}"
                ) from refused
        finally:
            remote.close()
            self.leader, self.synced = "", False
            self.store.upstream = Nobody()
