"""Hosts from GPU_NODES, GPU_FLEET or fleet.yaml; without any, an error that says how to name some."""

from pathlib import Path

from hami_k3s.inventory import hosts

gpu_nodes = hosts(Path(__file__).resolve().parent)
