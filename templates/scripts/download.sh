# A released file, checked against the release's own sums before it gets its name.
set -eu
umask 022
dest={{ dest | quote }}
url={{ url | quote }}
sums_url={{ sums_url | quote }}
sums_name={{ sums_name | quote }}
folder=$(dirname "$dest")
mkdir -p "$folder"
rm -rf "$folder"/.download.*
work=$(mktemp -d "$folder/.download.XXXXXX")
trap 'rm -rf "$work"' EXIT
fetch() {
    curl --fail --location --progress-bar --show-error --retry 3 --retry-delay 2 --connect-timeout 20 \
        --speed-limit 1000 --speed-time 60 --max-time {{ limit }} --retry-max-time {{ limit }} --output "$2" "$1" && return
    echo
    echo "could not fetch $1 (curl's reason is above)."
    echo "Check the route to it, or set {{ setting }} to a mirror; a slow line needs a higher {{ limit_setting }}."
    exit 1
}
fetch "$sums_url" "$work/sums"
expected=$(awk -v name="$sums_name" '$2 == name || $2 == "*" name { print $1 }' "$work/sums" | head -n 1)
if ! printf %s "$expected" | grep -qxE '[0-9a-f]{64}'; then
    echo "$sums_url has no sha256 for $sums_name; it begins: $(head -c 80 "$work/sums" | tr -c '[:print:]' ' ')"
    echo "A login page or proxy answers for it, the version does not exist there, or {{ setting }} is wrong."
    exit 1
fi
fetch "$url" "$work/file"
found=$(sha256sum <"$work/file" | cut -c 1-64)
if [ "$found" != "$expected" ]; then
    echo "sha256 of $url is $found"
    echo "$sums_url says   $expected"
    echo "The file was changed or cut on the way and is refused. Try again, or set {{ setting }} to another source."
    exit 1
fi
{% if member %}
tar -xzf "$work/file" -C "$work" --no-same-owner {{ member | quote }}
mv -f "$work"/{{ member | quote }} "$work/file"
{% endif %}
chmod 755 "$work/file"
sync "$work/file"
mv -f "$work/file" "$dest"
echo "$dest"
