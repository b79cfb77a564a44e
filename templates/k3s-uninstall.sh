#!/bin/sh
# Written by pyinfra-hami-k3s. Removes k3s with all its data. The container toolkit stays, and so do your own files.
[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"

/usr/local/bin/k3s-killall.sh
for unit in k3s k3s-agent; do
    systemctl disable $unit.service 2>/dev/null
    systemctl reset-failed $unit.service 2>/dev/null
    rm -f /etc/systemd/system/$unit.service /etc/systemd/system/$unit.service.env
done
systemctl daemon-reload

for name in kubectl crictl ctr; do
    [ "$(readlink /usr/local/bin/$name)" = k3s ] && rm -f /usr/local/bin/$name
done
# What says that this k3s is ours goes after the data: a removal that was cut off can be done again.
rm -rf /run/k3s /run/flannel /var/lib/rancher/k3s /var/lib/kubelet /etc/rancher/node /var/log/pods /var/log/containers || {
    echo "not everything could be removed: something still uses it (the lines above). Stop it, or reboot; then run this again"
    exit 1
}
cd /etc/rancher/k3s 2>/dev/null && {
    rm -f k3s.yaml hami-k3s.env* hami-k3s.token* config.yaml.d/50-gpu-node.yaml* config.yaml.d/51-cluster.yaml*
    if [ -e {{ library }}/registries.applied ]; then
        rm -f registries.yaml
        [ ! -e registries.yaml.before-hami-k3s ] || mv registries.yaml.before-hami-k3s registries.yaml
    fi
    cd /
}
rm -f /usr/local/bin/k3s {{ library }}/registries.* {{ library }}/k3s-* {{ started }}
rmdir /etc/rancher/k3s/config.yaml.d /etc/rancher/k3s /etc/rancher /var/lib/rancher {{ library }} 2>/dev/null
rm -f /usr/local/bin/k3s-killall.sh /usr/local/bin/k3s-uninstall.sh
exit 0
