"""A pod's status, put together from what its containers do."""

from typing import Any

from ..cluster import Cluster, condition, set_condition
from . import images

Object = dict[str, Any]


class PodStatus:
    cluster: Cluster
    key: tuple[str, str]
    states: dict[str, Object]
    pod: Any

    def _specs(self) -> list[Object]:
        return [*(self.pod["spec"].get("initContainers") or []), *self.pod["spec"]["containers"]]

    def _state(self, container: Object, **changes: Any) -> None:
        if "containerID" in changes:
            changes["containerID"] = f"containerd://{changes['containerID']}"
        base = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        state = {**base, "ready": False, "started": False, "state": {}, "lastState": {}}
        self.states[container["name"]] = {**state, **self.states.get(container["name"], {}), **changes}
        self._set()

    def say(self) -> None:
        """The status as it is known here."""
        self._set()

    def _set(self, **fields: Any) -> None:
        pod = self.pod
        init_names = [c["name"] for c in pod["spec"].get("initContainers") or []]
        names = [c["name"] for c in pod["spec"]["containers"]]
        mine = [self._shown(n) for n in names if n in self.states]
        first = [self._shown(n) for n in init_names if n in self.states]
        ready = len(mine) == len(names) and all(s["ready"] for s in mine)
        begun = any("running" in s["state"] or s.get("lastState") for s in mine)
        phase = fields.get("phase") or pod["status"].get("phase", "Pending")
        if phase == "Pending" and begun:
            phase = "Running"
        finished = phase in ("Succeeded", "Failed")
        over = (
            {"reason": "PodCompleted"}
            if phase == "Succeeded"
            else {"reason": "PodFailed"}
            if finished
            else {}
        )
        unready = over if finished else {"reason": "ContainersNotReady"}
        is_ready = ready and not finished

        def change(obj: Object) -> None:
            status = obj["status"]
            status.update({**fields, "phase": phase})
            conditions = status.get("conditions") or []
            for kind, good in (
                ("PodReadyToStartContainers", not finished),
                ("Initialized", True),
                ("Ready", is_ready),
                ("ContainersReady", is_ready),
            ):
                why = {} if good or kind not in ("Ready", "ContainersReady") else unready
                conditions = set_condition(conditions, condition(kind, "True" if good else "False", **why))
            status["conditions"] = conditions
            if mine:
                status["containerStatuses"] = mine
            if first:
                status["initContainerStatuses"] = first

        self.cluster.store.modify("pods", *self.key, change)

    def _shown(self, name: str) -> Object:
        state = dict(self.states[name])
        spec = next((c for c in self._specs() if c["name"] == name), None)
        try:
            state["image"] = images.normal(spec["image"] if spec else state["image"])
        except images.PullError:
            state["image"] = spec["image"] if spec else state["image"]
        return state
