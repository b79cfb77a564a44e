"""Objects of the API server, changed only when they differ."""

from __future__ import annotations

import shlex
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from hami_k3s import cluster
from hami_k3s.difference import NOT_THERE, Difference, noted
from hami_k3s.facts.kubernetes import KUBECTL, Node
from hami_k3s.operations.k3s import state_of
from hami_k3s.waits import fail


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
    if not noted(host, label_differences(state_of(host).own, key, value)):
        host.noop(f"the node is labelled {key}={value}")
        return
    yield FunctionCommand(label, (key, value), {})


def label(state: State, host: Host, key: str, value: str) -> bool:
    """Set it, through a server. False, with the reason, when that was not possible."""
    node = shlex.quote(state_of(host, fresh=True).hostname or "")
    result = cluster.ask(host, f"{KUBECTL} label node {node} --overwrite {shlex.quote(f'{key}={value}')}")
    return result.ok or fail(state, host, f"the node cannot be labelled: {result.stderr or result.stdout}")
