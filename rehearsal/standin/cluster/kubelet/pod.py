"""One pod on this node, from admission to removal."""

import asyncio
import contextlib
import secrets
import shutil
from typing import Any

from .. import clock, events, log, machine, paths
from ..cluster import Cluster
from . import environment, images, volumes
from .container import Exit, Played, Real, log_path
from .devices import AdmissionError
from .pod_status import PodStatus
from .programs import find_program
from .pulling import Pulling

Object = dict[str, Any]


class PodWorker(Pulling, PodStatus):
    def __init__(self, cluster: Cluster, pod: Object) -> None:
        self.cluster = cluster
        self.key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.uid = pod["metadata"]["uid"]
        self.running: dict[str, Real | Played] = {}
        self.states: dict[str, Object] = {}
        for status in (pod.get("status", {}).get("initContainerStatuses") or []) + (
            pod.get("status", {}).get("containerStatuses") or []
        ):
            self.states[status["name"]] = dict(status)
        self.leaving = False
        self.task = asyncio.ensure_future(self._guard())

    @property
    def pod(self) -> Object:
        found = self.cluster.store.get("pods", *self.key)
        if found is None or found["metadata"]["uid"] != self.uid:
            raise asyncio.CancelledError
        return found

    def event(self, kind: str, reason: str, text: str) -> None:
        events.emit(self.cluster.store, self.pod, kind, reason, text, "kubelet", self.cluster.node)

    # --- life

    async def _guard(self) -> None:
        try:
            await self._run()
        except asyncio.CancelledError:
            raise
        except Exception as broken:
            log.error(f"kubelet: pod {'/'.join(self.key)}: {type(broken).__name__}: {broken}")
            import traceback

            traceback.print_exc()

    async def _run(self) -> None:
        if self.pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return
        try:
            self.cluster.kubelet.devices.admit(self.pod)
        except AdmissionError as refused:
            self.event("Warning", "UnexpectedAdmissionError", str(refused))
            self._set(
                phase="Failed", reason="UnexpectedAdmissionError", message=f"Pod was rejected: {refused}"
            )
            return
        address = self.pod.get("status", {}).get("podIP") or self.cluster.kubelet.next_address(self.pod)
        self._set(
            phase=self.pod["status"].get("phase", "Pending"),
            hostIP=self.cluster.address,
            hostIPs=[{"ip": self.cluster.address}],
            podIP=address,
            podIPs=[{"ip": address}],
            startTime=self.pod["status"].get("startTime") or clock.stamp(),
        )
        await self._sandbox()
        for container in self.pod["spec"].get("initContainers") or []:
            await self._supervise(container, init=True)
            if self.states[container["name"]]["state"].get("terminated", {}).get("exitCode") != 0:
                self._set(phase="Failed")
                return
        evictor = asyncio.ensure_future(self._evict())
        try:
            await asyncio.gather(*(self._supervise(c) for c in self.pod["spec"]["containers"]))
        finally:
            evictor.cancel()
        codes = [
            self.states[c["name"]]["state"]["terminated"]["exitCode"] for c in self.pod["spec"]["containers"]
        ]
        self._set(phase="Failed" if any(codes) else "Succeeded")

    async def _evict(self) -> None:
        """Broken on purpose: pods outside kube-system are evicted after N seconds, as on a node short of memory."""
        begun = asyncio.get_running_loop().time()
        while (
            self.key[0] == "kube-system"
            or (after := machine.fault("evicts")) is None
            or (asyncio.get_running_loop().time() - begun < float(after or 3))
        ):
            await asyncio.sleep(0.3)
        text = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 51240Ki."
        self.event("Warning", "Evicted", text)
        self._set(reason="Evicted", message=text)
        for held in list(self.running.values()):
            await held.stop(0)

    async def _sandbox(self) -> None:
        """A runtime class whose handler this node's containerd does not have never gets a sandbox."""
        while (why := self._no_handler()) is not None:
            text = f"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: {why}"
            self.event("Warning", "FailedCreatePodSandBox", text)
            await asyncio.sleep(10)

    def handler(self) -> str:
        wanted = self.pod["spec"].get("runtimeClassName")
        if not wanted:
            return self.cluster.daemon.default
        found = self.cluster.store.get("node.k8s.io/runtimeclasses", "", wanted)
        return found["handler"] if found else wanted

    def _no_handler(self) -> str | None:
        handler = self.handler()
        if handler == "runc" or handler in self.cluster.daemon.runtimes:
            return None
        return f'no runtime for "{handler}" is configured'

    # --- containers

    async def _supervise(self, container: Object, init: bool = False) -> None:
        name = container["name"]
        attempt = 0
        policy = self.pod["spec"].get("restartPolicy", "Always")
        while True:
            ended = self.states.get(name, {}).get("state", {}).get("terminated")
            if ended is None:
                ended = await self._once(container)
            if policy == "Never" or ((policy == "OnFailure" or init) and ended["exitCode"] == 0):
                return
            delay = (
                0.0 if attempt == 0 and ended["exitCode"] == 0 else min(10 * 2 ** max(0, attempt - 1), 300)
            )
            attempt += 1
            state = self.states[name]
            if attempt > 1:
                text = f"back-off {int(delay)}s restarting failed container={name} pod={self.key[1]}_{self.key[0]}({self.uid})"
                waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
                self._state(
                    container, state=waiting, lastState={"terminated": ended}, ready=False, started=False
                )
                self.event(
                    "Warning", "BackOff", f"Back-off restarting failed container {name} in pod {self.key[1]}"
                )
                await asyncio.sleep(delay)
            count = state.get("restartCount", 0) + 1
            self._state(
                container, state={"waiting": {"reason": "ContainerCreating"}}, lastState={"terminated": ended}
            )
            self.states[name]["restartCount"] = count

    async def _once(self, container: Object) -> Object:
        """Start the container, or take over the one that already runs, and wait for its end."""
        name = container["name"]
        status = self.states.get(name) or {}
        adopted = "running" in status.get("state", {})
        container_id = (
            status.get("containerID", "").removeprefix("containerd://") if adopted else secrets.token_hex(32)
        )
        image = self._running_image(container) if adopted else await self._image(container)
        held: Real | Played
        if image.kind == "system":
            held = Real(container_id)
        else:
            held = Played(container_id, log_path(self.pod, name, status.get("restartCount", 0)))
        lost = adopted and not held.folder.exists()
        self.running[name] = held
        if lost:
            ended = Exit(255, clock.stamp(), "")
        else:
            if not adopted:
                await self._mount(container)
            ended = await self._start(container, image, held, adopted)
        reason = (
            "StartError"
            if ended.error
            else "Completed"
            if ended.code == 0
            else "Unknown"
            if lost
            else "Error"
        )
        started = self.states[name]["state"].get("running", {}).get("startedAt", clock.stamp())
        final = {"exitCode": ended.code, "reason": reason, "startedAt": started, "finishedAt": ended.finished}
        final["containerID"] = f"containerd://{container_id}"
        if ended.error:
            final["message"] = self._oci(ended.error)
        self._state(container, state={"terminated": final}, ready=False, started=False)
        self.running.pop(name, None)
        held.forget()
        return final

    def _oci(self, error: str) -> str:
        return (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
            f"runc create failed: {error}"
        )

    async def _start(
        self, container: Object, image: images.Image, held: Real | Played, adopted: bool
    ) -> Exit:
        name = container["name"]
        if isinstance(held, Played):
            program = find_program(self.cluster, self, container, image, adopted)
            held.start(program)
        elif not adopted:
            config = await self._config(container, image, held)
            held.start(self.cluster.kubelet.shim, config)
            if failed := await held.wait_started():
                if failed.error:
                    self.event("Warning", "Failed", f"Error: {self._oci(failed.error)}")
                self._state(container, state={"running": {"startedAt": failed.finished}}, containerID=held.id)
                return failed
        if not adopted:
            self.event("Normal", "Created", f"Created container: {name}")
            self.event("Normal", "Started", f"Started container {name}")
            running = {"running": {"startedAt": clock.stamp()}}
            self._state(container, state=running, containerID=held.id, ready=True, started=True)
        return await held.wait()

    async def _config(self, container: Object, image: images.Image, held: Real) -> Object:
        while True:
            try:
                granted = self.cluster.kubelet.devices.granted(self.pod, container["name"])
                env = environment.build(self.cluster, self.pod, container, image, granted.env)
                break
            except environment.ConfigError as missing:
                waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": str(missing)}}
                self._state(container, state=waiting)
                self.event("Warning", "Failed", f"Error: {missing}")
                await asyncio.sleep(5)
        links, binds = environment.extras(image)
        binds += volumes.mounts(volumes.sources(self.cluster, self.pod), container)
        binds += [(str(paths.on_node(a)), b, c) for a, b, c in granted.mounts]
        binary = self.cluster.daemon.binary(self.handler())
        state = self.states.get(container["name"], {})
        return {
            "image": str(paths.on_node(paths.IMAGE)),
            "hostname": self.pod["spec"].get("hostname") or self.key[1][:63],
            "argv": environment.command(container, image, env),
            "env": env,
            "cwd": container.get("workingDir") or "/",
            "binds": sorted(binds, key=lambda b: b[1]),
            "files": environment.files(self.cluster, self.pod),
            "links": links,
            "runtime": str(paths.on_node(binary)) if binary else "",
            "log": str(log_path(self.pod, container["name"], state.get("restartCount", 0))),
        }

    async def _mount(self, container: Object) -> None:
        while True:
            try:
                volumes.sources(self.cluster, self.pod)
                volumes.check_keys(self.cluster, self.pod, container)
                return
            except volumes.MountError as failed:
                self._state(container, state={"waiting": {"reason": "ContainerCreating"}})
                self.event("Warning", "FailedMount", str(failed))
                await asyncio.sleep(2)

    # --- the end

    async def terminate(self, grace: float) -> None:
        self.leaving = True
        with contextlib.suppress(asyncio.CancelledError):  # a pod removed without grace is gone already
            for name in list(self.running):
                self.event("Normal", "Killing", f"Stopping container {name}")
        held = list(self.running.values())
        await asyncio.gather(*(c.stop(grace) for c in held))
        self.task.cancel()
        await asyncio.wait([self.task], timeout=1)
        late = [c for c in self.running.values() if c not in held]  # started while the others were stopped
        await asyncio.gather(*(c.stop(0) for c in late))
        for container in held + late:
            container.forget()
        shutil.rmtree(paths.on_node(f"{paths.KUBELET}/pods/{self.uid}"), ignore_errors=True)
        namespace, name = self.key
        shutil.rmtree(paths.on_node(f"{paths.POD_LOGS}/{namespace}_{name}_{self.uid}"), ignore_errors=True)
        found = self.cluster.store.get("pods", *self.key)
        if (
            found is not None
            and found["metadata"]["uid"] == self.uid
            and found["metadata"].get("deletionTimestamp")
        ):
            self.cluster.store.remove("pods", *self.key)
