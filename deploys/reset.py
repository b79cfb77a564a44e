"""The lab's clean-up: pods, release, label, annotations; k3s itself only with `--data reset_k3s=true`.

pyinfra inventory.py deploys/reset.py
"""

from hami_k3s.stages import reset

reset.hami()
reset.k3s()
