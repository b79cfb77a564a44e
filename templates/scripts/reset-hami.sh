# The lab's clean-up: verify's pods, the release, then what helm does not own.
set -u
export KUBECONFIG={{ kubeconfig }} KUBECACHEDIR={{ cache }} HOME=/root
k() { k3s kubectl --request-timeout=20s "$@"; }
status=0
spaces=$(k get namespaces -l {{ owner | quote }} -o name)
[ -z "$spaces" ] || k3s kubectl delete $spaces --ignore-not-found --timeout=60s || status=1
helm={{ helm | quote }}
[ ! -x "$helm" ] || "$helm" uninstall {{ release | quote }} -n {{ namespace | quote }} --ignore-not-found --wait --timeout {{ limit }}s || status=1
k -n {{ namespace | quote }} delete secret {{ (fullname ~ "-scheduler-tls") | quote }} --ignore-not-found || status=1
k -n {{ namespace | quote }} delete lease {{ (fullname ~ "-scheduler") | quote }} --ignore-not-found || status=1
node=$(hostname | tr A-Z a-z)
k annotate node "$node" {{ annotations | map("quote") | join(" ") }} || status=1
k label node "$node" gpu- || status=1
exit $status
