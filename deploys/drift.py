"""What differs on each host from what gpu_node.py would make of it. Changes nothing.

pyinfra inventory.py deploys/drift.py -y
"""

from hami_k3s.stages import drift, hami, k3s, label, toolkit

drift.begin()  # the stages of gpu_node.py, which only look
toolkit.container_toolkit()
k3s.server()
k3s.agent()
label.gpu_label()
hami.helm_binary()
hami.release()
hami.ready()
drift.report()
