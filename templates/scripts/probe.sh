# Fill slices one after the other, each held while the next is filled; look at the card from the host after each.
# Prints name=base64 lines.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '%s=%s\n' "$1" "$({ cat "$work/$2" 2>/dev/null; printf '\n%s' "$3"; } | base64 | tr -d '\n')"; }
{% for probe in probes %}
{% set n = loop.index %}
{% set fd = n + 2 %}
mkfifo "$work/in{{ n }}"
# The earlier probes' ends of the pipes must not live on in this one, or closing them here would not end the hold.
{{ kubectl }} exec -i -n {{ namespace }} {{ probe.pod }} -- {{ probe.command }} <"$work/in{{ n }}" >"$work/out{{ n }}" 2>"$work/err{{ n }}"
{%- for earlier in range(3, fd) %} {{ earlier }}>&-{% endfor %} &
probe{{ n }}=$!
exec {{ fd }}>"$work/in{{ n }}"
tries=0
while [ "$tries" -lt {{ limit * 5 }} ] && kill -0 "$probe{{ n }}" 2>/dev/null && ! grep -q '"refused"' "$work/out{{ n }}"; do
    tries=$((tries + 1))
    sleep 0.2
done
timeout 30 {{ query }} >"$work/host{{ n }}" 2>&1
host{{ n }}=$?
{% endfor %}
timeout 30 nvidia-smi >"$work/table" 2>&1
table=$?
{% for probe in probes %}
exec {{ loop.index + 2 }}>&-
{% endfor %}
( sleep {{ limit }}; kill{% for probe in probes %} "$probe{{ loop.index }}"{% endfor %} 2>/dev/null ) >/dev/null 2>&1 &
guard=$!
{% for probe in probes %}
wait "$probe{{ loop.index }}"
say out{{ loop.index }} out{{ loop.index }} "$?"
say err{{ loop.index }} err{{ loop.index }} 0
say host{{ loop.index }} host{{ loop.index }} "$host{{ loop.index }}"
{% endfor %}
kill "$guard" 2>/dev/null
say table table "$table"
