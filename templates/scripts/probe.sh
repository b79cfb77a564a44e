# Fill the slice, look at the card from the host while it is full, let go. Prints name=base64 lines.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '%s=%s\n' "$1" "$({ cat "$work/$2" 2>/dev/null; printf '\n%s' "$3"; } | base64 | tr -d '\n')"; }
mkfifo "$work/in"
{{ kubectl }} exec -i -n {{ namespace }} {{ pod }} -- {{ command }} <"$work/in" >"$work/out" 2>"$work/err" &
probe=$!
exec 3>"$work/in"
tries=0
while [ "$tries" -lt {{ limit * 5 }} ] && kill -0 "$probe" 2>/dev/null && ! grep -q '"refused"' "$work/out"; do
    tries=$((tries + 1))
    sleep 0.2
done
timeout 30 {{ query }} >"$work/host" 2>&1
host=$?
timeout 30 nvidia-smi >"$work/table" 2>&1
table=$?
exec 3>&-
( sleep {{ limit }}; kill "$probe" 2>/dev/null ) >/dev/null 2>&1 &
guard=$!
wait "$probe"
status=$?
kill "$guard" 2>/dev/null
say out out "$status"
say err err 0
say host host "$host"
say table table "$table"
