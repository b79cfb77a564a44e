"""Every problem of every host that shall be a GPU node, in seconds. Changes nothing.

pyinfra inventory.py deploys/preflight.py
"""

from hami_k3s.stages import preflight

preflight.every_problem()
