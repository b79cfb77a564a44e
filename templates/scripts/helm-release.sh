# The HAMi release. The chart is checked against its sum before helm sees it.
set -eu
umask 077
export KUBECONFIG={{ kubeconfig }} KUBECACHEDIR={{ cache }} HOME=/root
work=$(mktemp -d)
trap 'rm -rf "$work"; kill $watch 2>/dev/null || true' EXIT
watch=
{% include "scripts/chart.sh" %}
cat >"$work/values.yaml" <<'HAMI_K3S_VALUES'
{{ values_json }}
HAMI_K3S_VALUES
pods() {
    k3s kubectl --request-timeout=10s -n {{ namespace | quote }} get pods --no-headers \
        -l 'app.kubernetes.io/component in (hami-scheduler,hami-device-plugin)' 2>/dev/null |
        awk '{ printf "%s%s %s %s", sep, $1, $2, $3; sep = ", " }'
}
(while sleep 5; do echo "helm works; pods: $(pods)"; done) &
watch=$!
# Stays when helm is ended in its work, by whatever (a reboot, an API server that went away), and leaves a release that
# nobody works on: the next run then does not wait for it.
pending='status in (pending-install,pending-upgrade,pending-rollback,uninstalling)'
mkdir -p "$(dirname {{ at_work | quote }})"
: >{{ at_work | quote }}
{% if recover == "uninstall" %}
echo "an earlier install was cut off ({{ status }}): removing what it left"
"$helm" uninstall {{ release | quote }} -n {{ namespace | quote }} --wait --timeout {{ limit }}s
{% elif recover == "rollback" %}
echo "an earlier upgrade was cut off ({{ status }}): back to revision {{ good_revision }}"
"$helm" rollback {{ release | quote }} {{ good_revision }} -n {{ namespace | quote }} --wait --timeout {{ limit }}s
{% endif %}
"$helm" upgrade --install {{ release | quote }} "$chart" -n {{ namespace | quote }} --create-namespace \
    -f "$work/values.yaml"{% if not scheduler %} --wait{% endif %} --timeout {{ limit }}s{% if scheduler %} &&
    k3s kubectl -n {{ namespace | quote }} rollout status {{ ("deployment/" ~ scheduler) | quote }} --timeout={{ limit }}s{% endif %} || {
    status=$?
    if left=$(k3s kubectl --request-timeout=10s -n {{ namespace | quote }} get secrets -o name \
        -l owner=helm,name={{ release | quote }},"$pending" 2>/dev/null) && [ -z "$left" ]; then
        rm -f {{ at_work | quote }}
    fi
    echo "pods: $(pods)"
    k3s kubectl --request-timeout=10s -n {{ namespace | quote }} get events --field-selector type=Warning --no-headers 2>/dev/null |
        grep -i hami | tail -n 6 >"$work/events"
    cat "$work/events"
    if grep -q '@sha256:[0-9a-f]*: not found' "$work/events"; then
        echo "An image is not to be had under its locked digest: it was published again under its tag, or the mirror has another."
        echo "\`python -m hami_k3s.releases check\` says both sums."
    fi
    echo "helm's reason is above the pods. {{ scheduler_hint }}"
    exit $status
}
rm -f {{ at_work | quote }}
