# The lab's clean-up: verify's pods, the release, then what helm does not own.
set -u
export KUBECONFIG={{ kubeconfig }} KUBECACHEDIR={{ cache }} HOME=/root
k() { k3s kubectl --request-timeout=20s "$@"; }
status=0
spaces=$(k get namespaces -l {{ owner | quote }} -o name)
# shellcheck disable=SC2086
[ -z "$spaces" ] || k3s kubectl delete $spaces --ignore-not-found --timeout=60s || status=1
{% if installed %}
for helm in {{ helm | quote }} {{ library }}/helm-v* "$(command -v helm)"; do
    [ -f "$helm" ] && [ -x "$helm" ] && break
    helm=
done
if [ -n "$helm" ]; then
    mkdir -p "$(dirname {{ at_work | quote }})"
    : >{{ at_work | quote }} # as in helm-release.sh
    "$helm" uninstall {{ release | quote }} -n {{ namespace | quote }} --ignore-not-found --wait --timeout {{ limit }}s
    ended=$?
    if [ $ended = 0 ]; then rm -f {{ at_work | quote }}; else status=1; fi
else
    echo "the release is there and helm is not: install helm as /usr/local/bin/helm, or remove k3s as a whole (reset_k3s)"
    status=1
fi
{% endif %}
k -n {{ namespace | quote }} delete secret {{ (fullname ~ "-scheduler-tls") | quote }} --ignore-not-found || status=1
k -n {{ namespace | quote }} delete lease {{ (fullname ~ "-scheduler") | quote }} --ignore-not-found || status=1
exit $status
