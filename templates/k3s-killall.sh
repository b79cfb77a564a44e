#!/bin/sh
# Written by pyinfra-hami-k3s. Stops k3s with every pod, and takes down their mounts and network; data stays.
[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"

systemctl stop k3s.service k3s-agent.service 2>/dev/null

# Each pod is a shim under k3s' own containerd with the pod's processes below it.
descendants() {
    for pid in "$@"; do
        echo "$pid"
        # shellcheck disable=SC2046
        descendants $(cat /proc/"$pid"/task/*/children 2>/dev/null)
    done
}
shims=
for process in /proc/[0-9]*; do
    tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q '^/var/lib/rancher/k3s/data/[^ ]*/containerd-shim' &&
        shims="$shims ${process#/proc/}"
done
# shellcheck disable=SC2046,SC2086
[ -n "$shims" ] && kill -9 $(descendants $shims) 2>/dev/null

for root in /run/k3s /var/lib/kubelet/pods /var/lib/kubelet/plugins /run/netns/cni- /var/lib/rancher/k3s; do
    awk -v root="$root" 'index($2, root) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r mount; do
        umount -l "$mount" 2>/dev/null
        case "$mount" in /var/lib/kubelet/pods/* | /run/netns/cni-*) rm -rf "$mount" 2>/dev/null ;; esac
    done
done

if command -v ip >/dev/null; then
    ip netns list 2>/dev/null | awk '/^cni-/ { print $1 }' | while read -r name; do ip netns delete "$name"; done
    ip -o link show master cni0 2>/dev/null | awk -F '[ :@]+' '{ print $2 }' | while read -r link; do
        ip link delete "$link" 2>/dev/null
    done
    for link in cni0 flannel.1 flannel-v6.1 kube-ipvs0 flannel-wg flannel-wg-v6; do
        ip link delete "$link" 2>/dev/null
    done
fi
rm -rf /var/lib/cni

for family in iptables ip6tables; do
    command -v "$family-save" >/dev/null || continue
    "$family-save" | grep -v -e KUBE- -e CNI- -e flannel | "$family-restore"
done
exit 0
