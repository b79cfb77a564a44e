#!/bin/bash
# The lab's commands as one script, made safe for reruns: what somebody would write with care and without any tool.
# Runs on the node as root; the sources come as environment variables. It checks exit statuses and sums, and nothing else.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive KUBECONFIG=/etc/rancher/k3s/k3s.yaml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wait_for() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "never: $*" >&2; exit 1; }
        sleep 1
    done
}
node=$(hostname)

nvidia-smi -L

keyring=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
packages=(nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1)
if [ ! -s "$keyring" ]; then
    curl -fsSL -o key "$TOOLKIT_URL/gpgkey"
    gpg --batch --yes --dearmor -o "$keyring" key
fi
echo "deb [signed-by=$keyring] $TOOLKIT_URL/stable/deb/\$(ARCH) /" >/etc/apt/sources.list.d/nvidia-container-toolkit.list
there=$(dpkg-query -W -f '${Version} ${db:Status-Abbrev}\n' "${packages[@]}" 2>/dev/null | grep -cxF "$TOOLKIT_VERSION-1 hi " || true)
if [ "$there" != ${#packages[@]} ]; then
    apt-get update -qq
    apt-get install -y -qq --allow-change-held-packages "${packages[@]/%/=$TOOLKIT_VERSION-1}" >/dev/null
    apt-mark hold "${packages[@]}" >/dev/null
fi

restart=no
if ! k3s --version 2>/dev/null | grep -qF "$K3S_VERSION"; then
    curl -fsSL -o k3s "$K3S_URL/${K3S_VERSION/+/%2B}/k3s"
    curl -fsSL -o sums "$K3S_URL/${K3S_VERSION/+/%2B}/sha256sum-amd64.txt"
    grep -E ' \*?k3s$' sums | sha256sum -c --quiet
    install -m 755 k3s /usr/local/bin/k3s
    ln -sf k3s /usr/local/bin/kubectl
    restart=yes
fi
mkdir -p /etc/rancher/k3s
printf 'default-runtime: nvidia\nwrite-kubeconfig-mode: "600"\n' >config.yaml
cmp -s config.yaml /etc/rancher/k3s/config.yaml || { mv config.yaml /etc/rancher/k3s/config.yaml; restart=yes; }
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
ready() { kubectl get node "$node" | grep -qw Ready; }
wait_for 300 ready
grep -q 'default_runtime_name = "nvidia"' /var/lib/rancher/k3s/agent/etc/containerd/config.toml
kubectl label node "$node" gpu=on --overwrite >/dev/null

if ! helm version 2>/dev/null | grep -qF "$HELM_VERSION"; then
    archive=helm-$HELM_VERSION-linux-amd64.tar.gz
    curl -fsSLO "$HELM_URL/$archive"
    curl -fsSL "$HELM_URL/$archive.sha256sum" | sha256sum -c --quiet
    tar -xzf "$archive"
    install -m 755 linux-amd64/helm /usr/local/bin/helm
fi
tag=$(kubectl version -o json | grep -o '"gitVersion": *"[^"]*"' | tail -n 1 | cut -d'"' -f4)
cat >values.yaml <<VALUES
scheduler:
  kubeScheduler: {image: {registry: registry.k8s.io, repository: kube-scheduler, tag: ${tag%%+*}}}
  leaderElect: false
  service: {type: ClusterIP}
devicePlugin:
  service: {type: ClusterIP}
VALUES
# A second run of helm would make a new revision of the same; the values of the last good one are kept beside k3s' own.
if ! helm list -n kube-system --deployed --filter '^hami$' 2>/dev/null | grep -qF "hami-$HAMI_VERSION" ||
    ! cmp -s values.yaml /etc/rancher/k3s/hami-values.yaml; then
    helm upgrade --install hami hami --repo "$HAMI_URL" --version "$HAMI_VERSION" -n kube-system -f values.yaml --wait \
        --timeout 5m >/dev/null
    mv values.yaml /etc/rancher/k3s/hami-values.yaml
fi
registered() { [ "$(kubectl get node "$node" -o 'jsonpath={.status.allocatable.nvidia\.com/gpu}')" = 10 ]; }
answers() { kubectl -n kube-system get endpoints hami-scheduler -o 'jsonpath={.subsets[*].addresses[*].ip}' | grep -q .; }
wait_for 300 registered
wait_for 300 answers
