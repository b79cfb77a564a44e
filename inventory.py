"""Hosts from GPU_NODES, GPU_FLEET or fleet.yaml; without any, an error that says how to name some."""

from pathlib import Path

from hami_k3s import fleet as _fleet
from hami_k3s.inventory import hosts

gpu_nodes = hosts(Path(__file__).resolve().parent)
# `servers`, `agents` and each cluster's name, for --limit.
globals().update(_fleet.groups(gpu_nodes))
