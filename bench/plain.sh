#!/bin/bash
# The lab's commands as one script, made safe for reruns: what somebody would write without any tool.
# Runs on the node as root; the sources come as environment variables. No checks but exit statuses.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive KUBECONFIG=/etc/rancher/k3s/k3s.yaml

nvidia-smi -L

keyring=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
if [ ! -s "$keyring" ]; then
    curl -fsSL "$TOOLKIT_URL/gpgkey" | gpg --batch --yes --dearmor -o "$keyring"
fi
echo "deb [signed-by=$keyring] $TOOLKIT_URL/stable/deb/\$(ARCH) /" >/etc/apt/sources.list.d/nvidia-container-toolkit.list
if [ "$(dpkg-query -W -f '${Version}' nvidia-container-toolkit 2>/dev/null)" != "$TOOLKIT_VERSION-1" ]; then
    apt-get update -qq
    apt-get install -y -qq "nvidia-container-toolkit=$TOOLKIT_VERSION-1" "nvidia-container-toolkit-base=$TOOLKIT_VERSION-1" \
        "libnvidia-container-tools=$TOOLKIT_VERSION-1" "libnvidia-container1=$TOOLKIT_VERSION-1" >/dev/null
fi

if ! k3s --version 2>/dev/null | grep -qF "$K3S_VERSION"; then
    curl -fsSL -o /tmp/k3s "$K3S_URL/${K3S_VERSION/+/%2B}/k3s"
    curl -fsSL "$K3S_URL/${K3S_VERSION/+/%2B}/sha256sum-amd64.txt" | awk '$2 == "k3s" { print $1 "  /tmp/k3s" }' | sha256sum -c --quiet
    install -m 755 /tmp/k3s /usr/local/bin/k3s
    ln -sf k3s /usr/local/bin/kubectl
fi
mkdir -p /etc/rancher/k3s
printf 'default-runtime: nvidia\nwrite-kubeconfig-mode: "600"\n' >/tmp/config.yaml
restart=no
cmp -s /tmp/config.yaml /etc/rancher/k3s/config.yaml || { mv /tmp/config.yaml /etc/rancher/k3s/config.yaml; restart=yes; }
if [ ! -e /etc/systemd/system/k3s.service ]; then
    cat >/etc/systemd/system/k3s.service <<'UNIT'
[Unit]
After=network-online.target
[Service]
Type=notify
KillMode=process
Delegate=yes
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStart=/usr/local/bin/k3s server
[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
    systemctl enable -q k3s
    restart=yes
fi
[ "$restart" = no ] || systemctl restart k3s
until kubectl get node "$(hostname)" 2>/dev/null | grep -qw Ready; do sleep 1; done
grep -q 'default_runtime_name = "nvidia"' /var/lib/rancher/k3s/agent/etc/containerd/config.toml
kubectl label node "$(hostname)" gpu=on --overwrite >/dev/null

if ! helm version 2>/dev/null | grep -qF "$HELM_VERSION"; then
    cd /tmp
    curl -fsSLO "$HELM_URL/helm-$HELM_VERSION-linux-amd64.tar.gz"
    curl -fsSL "$HELM_URL/helm-$HELM_VERSION-linux-amd64.tar.gz.sha256sum" | sha256sum -c --quiet
    tar -xzf "helm-$HELM_VERSION-linux-amd64.tar.gz"
    install -m 755 linux-amd64/helm /usr/local/bin/helm
fi
tag=$(kubectl version -o json | grep -o '"gitVersion": *"[^"]*"' | tail -n 1 | cut -d'"' -f4)
helm upgrade --install hami hami --repo "$HAMI_URL" --version "$HAMI_VERSION" -n kube-system \
    --set scheduler.kubeScheduler.image.registry=registry.k8s.io --set scheduler.kubeScheduler.image.repository=kube-scheduler \
    --set "scheduler.kubeScheduler.image.tag=${tag%%+*}" --set scheduler.leaderElect=false \
    --set scheduler.service.type=ClusterIP --set devicePlugin.service.type=ClusterIP --wait --timeout 5m >/dev/null
until [ "$(kubectl get node "$(hostname)" -o jsonpath='{.status.allocatable.nvidia\.com/gpu}')" = 10 ]; do sleep 1; done
until [ -n "$(kubectl -n kube-system get endpoints hami-scheduler -o jsonpath='{.subsets[*].addresses[*].ip}' 2>/dev/null)" ]; do sleep 1; done
