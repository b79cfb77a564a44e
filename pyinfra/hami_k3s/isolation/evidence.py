"""What verify measured on one host about one card: plain, frozen data, no judgement.

Every part of `Evidence` may be None, which means "could not be measured"; `errors[part]` then says why. A
claim that needs such a part becomes an error, never a pass. All sizes are MiB unless a name says otherwise.
`dataclasses.asdict(evidence)` is plain JSON-able data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hami_k3s.isolation.plan import SlicePlan

T = TypeVar("T")


class NotMeasuredError(Exception):
    """A claim asked for a part of the evidence that could not be measured; the message says which and why."""


@dataclass(frozen=True)
class Card:
    """One card as the host's nvidia-smi reports it. `mig` is its word: Enabled, Disabled or [N/A]."""

    index: int
    uuid: str
    name: str
    memory_mib: int
    used_mib: int | None = None
    free_mib: int | None = None
    mig: str = "[N/A]"
    driver: str = ""
    compute_cap: str = ""


@dataclass(frozen=True)
class ContainerdConfig:
    """The rendered containerd config, parsed as TOML. `runtimes` maps a runtime's name to its BinaryName."""

    schema_version: int
    default_runtime_name: str | None
    runtimes: Mapping[str, str] = field(default_factory=dict)
    path: str = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"


@dataclass(frozen=True)
class Provider:
    """Another thing that offers nvidia.com/gpu: `kind` is DaemonSet, or Manifest (k3s auto-deploy)."""

    namespace: str
    name: str
    image: str = ""
    kind: str = "DaemonSet"


@dataclass(frozen=True)
class Providers:
    """The providers of nvidia.com/gpu that are not HAMi's."""

    others: tuple[Provider, ...] = ()
    cluster_policy_crd: bool = False  # the GPU Operator's CRD is there


@dataclass(frozen=True)
class Webhook:
    """HAMi's admission webhook: who answers it, and what it did to a pod of a server-side dry run."""

    endpoints: tuple[str, ...]
    dry_run_scheduler: str | None  # spec.schedulerName of the dry-run pod
    ca_bundle: bool = True
    failure_policy: str = ""


@dataclass(frozen=True)
class RegisteredDevice:
    """One device of hami.io/node-nvidia-register. `memory_mib` is physical memory x scaling."""

    uuid: str
    count: int
    memory_mib: int
    cores: int = 100
    type: str = ""
    numa: int = 0
    healthy: bool = False
    index: int = 0
    mode: str = ""


@dataclass(frozen=True)
class Registration:
    """The node's registration: parsed devices, and the raw text for the report."""

    devices: tuple[RegisteredDevice, ...]
    raw: str = ""
    handshake: str | None = None  # raw text of hami.io/node-handshake
    memory_scaling: float = 1.0  # devicePlugin.deviceMemoryScaling of the release


@dataclass(frozen=True)
class Allocation:
    """One device granted to a container, from hami.io/vgpu-devices-allocated."""

    uuid: str
    memory_mib: int
    cores: int = 0
    vendor: str = "NVIDIA"


@dataclass(frozen=True)
class Event:
    """One Kubernetes event. `source` is kubectl's From column (reportingComponent or source.component)."""

    reason: str
    source: str
    message: str
    type: str = "Normal"
    count: int = 1


@dataclass(frozen=True)
class Pod:
    """One of verify's own pods. `phase` is Kubernetes' word; `allocated` is what HAMi granted it."""

    name: str
    phase: str
    node: str | None = None
    allocated: tuple[Allocation, ...] = ()
    events: tuple[Event, ...] = ()
    scheduler: str | None = None
    uid: str = ""
    reason: str = ""  # kubelet's: Evicted, ErrImagePull, ... with its message


@dataclass(frozen=True)
class PodView:
    """The card as nvidia-smi inside a pod shows it; `text` is the plain table, kept as the lab's evidence."""

    pod: str
    uuid: str
    total_mib: int
    used_mib: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Mechanism:
    """What was injected in a pod. `library` is the path that exists in the pod, None when it is missing."""

    pod: str
    environment: Mapping[str, str]
    preload: str | None  # text of /etc/ld.so.preload, None when there is no such file
    library: str | None
    stderr: str = ""  # of a trivial command run in the pod: the loader complains there


@dataclass(frozen=True)
class ProbeResult:
    """The probe's JSON line. `measured` is False when it could not try at all; `error` then says why."""

    measured: bool
    refused: bool
    allocated_mib: int
    chunk_mib: int
    cap_mib: int
    rc: int = 0
    rc_name: str = ""
    route: str = "sync"
    free_before_mib: int | None = None
    total_mib: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class ProbeRun:
    """One run of the probe in a pod, and what the host saw while the probe held its memory."""

    pod: str
    exit_status: int | None
    result: ProbeResult | None
    stderr: str = ""
    stdout: str = ""
    host_free_mib: int | None = None
    host_used_mib: int | None = None
    route: str = "sync"  # the one that was asked for


@dataclass(frozen=True)
class Sight:
    """What one container that asked for no GPU sees: device files, and the lines of nvidia-smi -L if it is there."""

    container: str
    devices: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    visible: str | None = None  # NVIDIA_VISIBLE_DEVICES in the container


@dataclass(frozen=True)
class Durable:
    """After a restart of k3s and a daemon-reload: a pod from before, a pod from after, and the node's claims again."""

    survivor_before: Pod
    survivor: Pod | None  # the same pod afterwards
    survivor_view: PodView | None = None
    survivor_probe: ProbeRun | None = None
    newcomer: Pod | None = None
    newcomer_view: PodView | None = None
    newcomer_mechanism: Mechanism | None = None
    newcomer_probe: ProbeRun | None = None
    blind: tuple[str, ...] = ()  # pods in which nvidia-smi shows no card any more, and what it says
    lost: tuple[str, ...] = ()  # claims of the node that did not come back, each with its reason
    seconds: float = 0.0  # from the restart until the node's claims held again


@dataclass(frozen=True)
class Evidence:
    """Everything measured on one host about one card (`card_uuid`). A None part has its reason in `errors`.

    A host with several cards gives one Evidence a card, equal in the parts that belong to the host.
    """

    host: str
    node: str | None = None
    node_ready: bool | None = None  # at the end of the measurement
    card_uuid: str | None = None
    plan: SlicePlan | None = None
    # the host
    cards: tuple[Card, ...] | None = None
    kernel_module: str | None = None  # version from /proc/driver/nvidia/version
    host_smi_text: str = ""  # the plain table of nvidia-smi on the host, kept as the lab's evidence
    containerd: ContainerdConfig | None = None
    default_handler: str | None = None  # of a pod without a runtime class; None = unknown, no error
    # the cluster
    providers: Providers | None = None
    server_version: str | None = None  # v1.36.2+k3s1
    scheduler_name: str = "hami-scheduler"  # schedulerName of the release, also the source of its events
    scheduler_images: tuple[str, ...] | None = None  # images of the running kube-scheduler containers
    webhook: Webhook | None = None
    registration: Registration | None = None
    allocatable: int | None = None  # nvidia.com/gpu of the node
    split_count: int | None = None  # devicePlugin.deviceSplitCount of the release
    # the card: verify's own pods
    share_pods: tuple[Pod, ...] | None = None
    overask_pod: Pod | None = None
    view: PodView | None = None
    mechanism: Mechanism | None = None
    probe: ProbeRun | None = None
    neighbour: ProbeRun | None = None  # the second pod's probe, while the first one held its slice
    routes: tuple[ProbeRun, ...] | None = None
    control: ProbeRun | None = None  # the same allocation in a pod that opted out of HAMi-core
    pending_control: Pod | None = None  # the over-ask, after the slices were freed
    no_request: tuple[Sight, ...] | None = None
    durable: Durable | None = None
    errors: Mapping[str, str] = field(default_factory=dict)

    def measured(self, part: str, value: T | None) -> T:
        """The value of a part, or NotMeasuredError with the reason recorded for it."""
        if value is None:
            raise NotMeasuredError(
                f"{part} could not be measured: {self.errors.get(part) or 'no reason was recorded'}"
            )
        return value

    def card(self) -> Card:
        """The card under test: the one `card_uuid` names, else the first one."""
        cards = self.measured("cards", self.cards)
        for card in cards:
            if self.card_uuid in (None, card.uuid):
                return card
        raise NotMeasuredError(f"cards: the host has no card {self.card_uuid or '(none at all)'}")
