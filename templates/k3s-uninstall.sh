#!/bin/sh
# Written by pyinfra-hami-k3s. Removes k3s with all its data. The container toolkit stays.
[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"

/usr/local/bin/k3s-killall.sh
systemctl disable k3s.service 2>/dev/null
systemctl reset-failed k3s.service 2>/dev/null
rm -f /etc/systemd/system/k3s.service /etc/systemd/system/k3s.service.env
systemctl daemon-reload

for name in kubectl crictl ctr; do
    [ "$(readlink /usr/local/bin/$name)" = k3s ] && rm -f /usr/local/bin/$name
done
rm -rf /etc/rancher/k3s /run/k3s /run/flannel /var/lib/rancher/k3s /var/lib/kubelet
rm -f /etc/rancher/node/password /usr/local/bin/k3s {{ library }}/k3s-* {{ started }}
rmdir /etc/rancher/node /etc/rancher /var/lib/rancher {{ library }} 2>/dev/null
rm -f /usr/local/bin/k3s-killall.sh /usr/local/bin/k3s-uninstall.sh
exit 0
