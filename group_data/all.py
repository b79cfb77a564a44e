"""Pins and defaults for every host. docs/settings.md lists all settings; fleet.yaml overrides these per fleet or host."""

from hami_k3s.releases.lockfile import pinned as _pinned

# The four versions are releases.lock.yaml's when it is there.

# NVIDIA Container Toolkit: all four packages, held at this version. 1.18.2 or later.
toolkit_version = _pinned("toolkit_version", "1.19.1")
# The k3s release.
k3s_version = _pinned("k3s_version", "v1.36.2+k3s1")
# Mode of /etc/rancher/k3s/k3s.yaml; the lab uses 644.
k3s_kubeconfig_mode = "0600"
# helm, 4.2 line; a 3.x release works too.
helm_version = _pinned("helm_version", "v4.2.3")
# HAMi's chart.
hami_chart_version = _pinned("hami_chart_version", "2.9.0")
# Chart values merged over ours.
hami_values = {}
# driver: a small ctypes probe; nvcc: the lab's own program, in an image of several GB.
verify_probe = "driver"
