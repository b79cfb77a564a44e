"""The way back: HAMi and what was configured for it; with `--data reset_k3s=true` k3s, with `reset_toolkit=true` the toolkit.

pyinfra inventory.py deploys/reset.py
"""

from hami_k3s.stages import reset

reset.unused()  # pods that use the cards are named, and nothing is done without reset_force
reset.hami()
reset.k3s()
reset.toolkit()
reset.rest()
