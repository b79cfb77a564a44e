"""Scheduling events to one plain sentence each: who decided, why, and what that usually means.

Pending has many causes. Only `card-memory`, said by HAMi's scheduler, shows that memory is accounted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hami_k3s.isolation.evidence import Event


@dataclass(frozen=True)
class Reading:
    """`code` is for programs, `sentence` for people, `subject` the node when the text names one."""

    code: str
    sentence: str
    subject: str = ""


# HAMi's reason for refusing a card: code and what a person should read.
_CARD_REASONS = {
    "CardInsufficientMemory": ("card-memory", "the card's memory is granted already: the pod does not fit"),
    "CardInsufficientCore": ("card-cores", "the card's compute share is granted already"),
    "CardComputeUnitsExhausted": ("card-cores", "the card's compute share is used up"),
    "CardTimeSlicingExhausted": ("card-split", "as many pods share the card as its split count allows"),
    "CardTypeMismatch": ("card-type", "the pod asks for another type of card"),
    "CardUuidMismatch": ("card-uuid", "the pod is pinned to another card"),
    "CardNotHealth": (
        "card-unhealthy",
        "HAMi holds the card to be unhealthy: restart the device plugin",
    ),
    "CardCordoned": ("card-cordoned", "the card is cordoned in HAMi"),
    "ExclusiveDeviceAllocateConflict": ("card-exclusive", "a pod that wants the card alone is in the way"),
    "AllocatedCardsInsufficientRequest": (
        "card-count",
        "fewer cards fit than the pod asks for",
    ),
    "NodeInsufficientDevice": ("card-count", "the node has fewer cards than the pod asks for"),
    "NumaNotFit": ("card-numa", "the cards do not lie on one NUMA node as asked"),
    "ModeNotFit": ("card-mode", "the card is in another sharing mode than the pod asks for"),
    "ResourceQuotaNotFit": ("quota", "the namespace's quota is used up"),
    "CardNotFoundCustomFilterRule": ("card-filtered", "a custom rule keeps the pod off the card"),
    "CardMigTopologyInfeasible": ("card-mig", "the card's MIG layout cannot hold the request"),
}
_CARD_REASON = re.compile(r"\b(" + "|".join(_CARD_REASONS) + r")\b(?:\(([^)]*)\))?")

# Other texts, in the order in which they are tried: pattern, code, sentence.
_TEXTS = (
    (
        r"\d+ node unregistered",
        "unregistered",
        "HAMi's scheduler does not know the node's cards",
    ),
    (
        r"has been locked within",
        "node-locked",
        "an earlier binding holds hami.io/mutex.lock of the node",
    ),
    (r"no binding pod found", "bypassed", "the pod reached the node without HAMi's scheduler"),
    (r"device number not matched", "bypassed", "the pod's devices are not those HAMi's scheduler chose"),
    (
        r"does not request any resource",
        "no-request",
        "the pod asks for no GPU",
    ),
    (r"didn't match Pod's node affinity/selector", "labels", "no node has the labels that the pod asks for"),
    (r"NodeUnfitPod", "unfit", "HAMi found no card that fits; a FilteringFailed event names the reason"),
    (r"no available node", "unfit", "HAMi found no card that fits; a further event names the reason"),
    (
        r"Insufficient nvidia\.com/gpumem",
        "webhook-missed",
        "the pod missed HAMi's webhook",
    ),
    (
        r"Insufficient nvidia\.com/gpu\b",
        "no-gpu",
        "too few nvidia.com/gpu: no plugin, or all in use",
    ),
    (
        r"untolerated taint|node\(s\) had taint",
        "taint",
        "the node has a taint that the pod does not tolerate",
    ),
    (r"Failed to pull image|ErrImagePull|ImagePullBackOff", "image", "the image could not be pulled"),
)
_REASONS = {
    "FilteringSucceed": ("filtered", "HAMi found a card that fits"),
    "BindingSucceed": ("bound", "HAMi bound the pod to the node"),
    "BindingFailed": ("bind-failed", "HAMi could not bind the pod to the node"),
    "Scheduled": ("scheduled", "the pod was assigned to a node"),
    "UnexpectedAdmissionError": ("admission", "kubelet refused the pod after it was scheduled"),
}


def read_event(event: Event) -> Reading:
    """What one event says. Code `other` and the event's own message when it is none of the known ones."""
    if event.reason in ("FilteringSucceed", "BindingSucceed", "Scheduled"):
        return Reading(*_REASONS[event.reason], subject=_node(event.message))
    if match := _CARD_REASON.search(event.message):
        code, sentence = _CARD_REASONS[match.group(1)]
        return Reading(code, sentence, match.group(2) or "")
    for pattern, code, sentence in _TEXTS:
        if re.search(pattern, event.message):
            return Reading(code, sentence)
    if event.reason in _REASONS:
        return Reading(*_REASONS[event.reason])
    return Reading("other", event.message)


def _node(message: str) -> str:
    match = re.search(r"fit node\(([^)]+)\)|binding node \[([^\]]+)\]|assigned \S+ to (\S+)", message)
    return next((group for group in match.groups() if group), "") if match else ""
