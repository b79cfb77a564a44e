"""A fresh machine with an NVIDIA card becomes a k3s node whose card HAMi shares. Reads like the lab, top to bottom.

pyinfra inventory.py deploys/gpu_node.py
"""

from hami_k3s.stages import downloads, driver, hami, k3s, label, preflight, toolkit

preflight.gpu_host()  # step 1: the driver answers, nothing is in the way
driver.nvidia_driver()  # only where driver_install asks for it
downloads.begin()  # while apt works: what the steps below will fetch
toolkit.container_toolkit()  # step 2: NVIDIA's toolkit first, so that k3s finds its runtime
k3s.server()  # steps 2 and 3: k3s, NVIDIA's runtime by default
k3s.agent()  # only in clusters: the other nodes join
label.gpu_label()  # step 2: gpu=on
hami.helm_binary()  # step 4
hami.release()
hami.ready()
