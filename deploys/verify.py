"""Two pods on one card, each held to its slice, and a verdict that can fail.

pyinfra inventory.py deploys/verify.py
"""

from hami_k3s.stages import verify

verify.isolation()
