"""Where k3s keeps things.

`REHEARSAL_ROOT` moves the whole tree under another folder and `REHEARSAL_API_PORT` the API's port (with the others that
follow from it), so that a developer can run the stand-in outside of a node; `REHEARSAL_NODE_GRACE` says how long a silent
node stays Ready. Nothing else can be overridden.
"""

import os
from pathlib import Path

ROOT = os.environ.get("REHEARSAL_ROOT", "").rstrip("/")
API_PORT = int(os.environ.get("REHEARSAL_API_PORT", "6443"))
BALANCER_PORT = API_PORT + 1  # 6444: an agent's way to whichever server answers
KUBELET_PORT = 10250 if API_PORT == 6443 else API_PORT + 2
NODE_GRACE = float(os.environ.get("REHEARSAL_NODE_GRACE", "50"))  # s, of kube-controller-manager


def on_node(path: str) -> Path:
    return Path(ROOT + path)


CONFIG = "/etc/rancher/k3s/config.yaml"
KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
NODE_PASSWORD = "/etc/rancher/node/password"
DATA = "/var/lib/rancher/k3s"
TLS = DATA + "/server/tls"
DB = DATA + "/server/db/state.json"
IMAGES = DATA + "/agent/images"
TOKEN = DATA + "/server/token"
ETCD = DATA + "/server/db/etcd"
AGENT = DATA + "/agent"
MANIFESTS = DATA + "/server/manifests"
CONTAINERD_CONFIG = DATA + "/agent/etc/containerd/config.toml"
CONTAINERD_SOCKET = "/run/k3s/containerd/containerd.sock"
CONTAINERS = "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io"
POD_LOGS = "/var/log/pods"
KUBELET = "/var/lib/kubelet"
IMAGE = "/usr/lib/rehearsal/image"
KUBECTL = "/usr/lib/rehearsal/bin/kubectl"
NODE_JSON = "/etc/rehearsal/node.json"
CGROUP_CONTROLLERS = "/sys/fs/cgroup/cgroup.controllers"
