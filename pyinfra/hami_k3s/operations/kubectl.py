"""Objects of the API server, changed only when they differ."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import trusted
from hami_k3s.difference import NOT_THERE, Difference, noted
from hami_k3s.facts.k3s import K3s
from hami_k3s.facts.kubernetes import KUBECTL, Node


def label_differences(own: Node | None, key: str, value: str) -> list[Difference]:
    """Of one label of this host's node."""
    found = own.labels.get(key) if own is not None else None
    return [] if found == value else [Difference("label", key, found or NOT_THERE, value)]


@operation()
def node_label(key: str, value: str) -> Generator[PyinfraCommand]:
    """
    A label of this host's own node.

    + key: the label
    + value: its value

    **Example:**

    .. code:: python

        kubectl.node_label(name="HAMi's device plugin may run here", key="gpu", value="on")
    """
    own = trusted.read(host, K3s, api=True).own
    if not noted(host, label_differences(own, key, value)):
        host.noop(f"the node is labelled {key}={value}")
        return
    yield StringCommand(
        f'{KUBECTL} label node "$(hostname | tr A-Z a-z)" --overwrite', QuoteString(f"{key}={value}")
    )
