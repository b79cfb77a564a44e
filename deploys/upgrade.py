"""k3s, toolkit and HAMi to the pinned or locked versions, node by node. Nobody's GPU pods are lost unasked.

pyinfra inventory.py deploys/upgrade.py
"""

from hami_k3s.stages import preflight, upgrade

preflight.gpu_host()
upgrade.allowed()  # a minor version left out, GPU pods in the way: refused before anything is changed
upgrade.prepared()  # downloads, while everything runs on
upgrade.servers()  # one at a time, each after a copy of its state
upgrade.release()  # HAMi's chart; its kube-scheduler follows the new servers
upgrade.nodes()  # up to upgrade_parallel at once; the first failure ends it
