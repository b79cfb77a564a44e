# Fill slices one after the other, each held while the next is filled; look at the card from the host after each.
# Prints name=base64 lines.
set -u
umask 077
{% if meeting %}
# The card is in another host than this one: that host is asked in between, by way of files in this folder.
work={{ meeting | quote }}
mkdir -p "$work" || exit 1
look() {
    : >"$work/look$1"
    tries=0
    while [ "$tries" -lt 300 ] && [ ! -e "$work/looked$1" ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    [ -e "$work/looked$1" ] && cat "$work/looked$1" >"$work/host$1" && [ "$(cat "$work/status$1")" = 0 ]
}
{% else %}
work=$(mktemp -d)
look() {
    case $1 in table) timeout 30 nvidia-smi ;; *) timeout 30 {{ query }} ;; esac >"$work/host$1" 2>&1
}
{% endif %}
trap 'rm -rf "$work"' EXIT
trap 'exit 1' TERM
echo room >"$work/room" || { echo "nothing can be written to $work: free some room there" >&2; exit 1; }
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
look {{ n }}
host{{ n }}=$?
{% endfor %}
look table
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
say table hosttable "$table"
