"""Every card is registered, healthy, with its memory."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Card, Evidence, RegisteredDevice
from hami_k3s.isolation.parse import parse_handshake
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "registered"
# NVML and nvidia-smi may round differently; a wrong card or a wrong scaling is off by far more.
MEMORY_TOLERANCE = 0.01
RESTART_PLUGIN = "kubectl -n kube-system delete pod -l app.kubernetes.io/component=hami-device-plugin"


def decide(evidence: Evidence) -> Verdict:
    """The annotation's UUIDs are the host's, each healthy, memory within 1 % of the host's x scaling."""
    cards = {card.uuid: card for card in evidence.measured("cards", evidence.cards)}
    registration = evidence.measured("registration", evidence.registration)
    devices = {device.uuid: device for device in registration.devices}
    expected = f"{len(cards)} card(s), healthy, " + ", ".join(
        f"{card.memory_mib} MiB" for card in cards.values()
    )
    if registration.memory_scaling != 1:
        expected += f" x {registration.memory_scaling:g}"
    observed = _observed(devices)
    if not devices:
        return failed(
            ID,
            expected,
            observed,
            "HAMi's device plugin registered nothing: it found no card, does not run here, or its one try failed",
            f"label the node gpu=on; {RESTART_PLUGIN}; then look in its log",
        )
    if set(devices) != set(cards):
        missing, strange = sorted(set(cards) - set(devices)), sorted(set(devices) - set(cards))
        what = [f"not registered: {', '.join(missing)}"] if missing else []
        what += [f"not on this host: {', '.join(strange)}"] if strange else []
        why = (
            "the registration is not of these cards; one left from an earlier installation looks just like it"
        )
        return failed(ID, expected, f"{observed}; {'; '.join(what)}", why, RESTART_PLUGIN)
    sick = [device.uuid for device in devices.values() if not device.healthy]
    if sick:
        return failed(
            ID,
            expected,
            f"{observed}; not healthy: {', '.join(sick)}",
            "the plugin holds the card to be unhealthy, and never takes that back by itself",
            f"look for Xid errors (dmesg | grep Xid), then {RESTART_PLUGIN}",
        )
    scaling = registration.memory_scaling
    wrong = [uuid for uuid, device in devices.items() if not _memory_fits(device, cards[uuid], scaling)]
    if wrong:
        return failed(
            ID,
            expected,
            observed,
            f"memory of {', '.join(wrong)} is more than {MEMORY_TOLERANCE:.0%} off the host's figure x scaling",
            "check devicePlugin.deviceMemoryScaling in hami_values, then restart deployment/hami-scheduler",
        )
    handshake = parse_handshake(registration.handshake)
    if handshake.state == "deleted":
        why = "HAMi's scheduler has taken the node out of its pool"
        return failed(ID, expected, f"{observed}; handshake Deleted {handshake.time}", why, RESTART_PLUGIN)
    return passed(ID, expected, observed)


def _memory_fits(device: RegisteredDevice, card: Card, scaling: float) -> bool:
    wanted = card.memory_mib * scaling
    return abs(device.memory_mib - wanted) <= wanted * MEMORY_TOLERANCE


def _observed(devices: dict[str, RegisteredDevice]) -> str:
    if not devices:
        return "nothing registered"
    sizes = ", ".join(f"{device.memory_mib} MiB" for device in devices.values())
    return f"{len(devices)} device(s), {sum(device.healthy for device in devices.values())} healthy, {sizes}"


PAGE = """\
- Measured: the annotation `hami.io/node-nvidia-register` (all formats since HAMi 2.4) against the host's UUIDs and
  MiB x memory scaling.
- Fails: nothing registered; a card missing; a UUID that is not of this host (a registration left from earlier looks
  valid); a card without `health`; memory more than 1 % off; a handshake `Deleted_...`. An old `Requesting_...` is
  normal.
- Do: label the node `gpu=on`; delete the device plugin's pod so that it registers again; `dmesg | grep Xid` for a
  sick card.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="Every card is registered, healthy, with its memory.",
    proof="annotation hami.io/node-nvidia-register against the host's UUIDs and MiB",
    step="4",
    decide=decide,
    page=PAGE,
    needs=("driver",),
)
