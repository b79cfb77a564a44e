# HAMi leaves one node: its plugin first, which would write the annotations anew, then what it wrote; then pods with a card.
set -u
export KUBECACHEDIR={{ cache }}
k() { k3s kubectl --request-timeout=20s "$@"; }
node={{ node | quote }}
status=0
k label node "$node" gpu- || status=1
tries=60
while [ $tries -gt 0 ]; do
    tries=$((tries - 1))
    [ -n "$(k -n {{ namespace | quote }} get pods -l app.kubernetes.io/component=hami-device-plugin \
        --field-selector "spec.nodeName=$node" -o name)" ] || break
    sleep 1
done
k annotate node "$node" {{ annotations | map("quote") | join(" ") }} || status=1
{% for space, pod in pods %}
# What its owner makes anew finds no card here.
k3s kubectl -n {{ space | quote }} delete pod {{ pod | quote }} --ignore-not-found --timeout=60s || status=1
{% endfor %}
exit $status
