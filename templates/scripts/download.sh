# A released file, checked against its sum before it gets its name.
set -eu
umask 022
dest={{ dest | quote }}
url={{ url | quote }}
sums_url={{ sums_url | quote }}
sums_name={{ sums_name | quote }}
expected={{ sha256 | quote }}
judge={{ judge | quote }}
sent={{ sent | quote }}
# An earlier run's download may have ended since this run has looked.
if [ -x "$dest" ] && there=$(cat "$dest.sha256" 2>/dev/null) && [ "${expected:-$there}" = "$there" ]; then
    echo "$dest"
    exit 0
fi
folder=$(dirname "$dest")
tool=${dest##*/}
tool=.download.${tool%%-*}
mkdir -p "$folder"
rm -rf "${folder:?}/$tool".*
work=$(mktemp -d "$folder/$tool.XXXXXX")
trap 'rm -rf "$work"' EXIT
# No file may grow past this: neither a body without end nor a bomb in an archive fills the disk.
most={{ most_mib }}
ulimit -f $((most * 2048))
{% include "scripts/fetch.sh" %}
fetch() {
    get "$1" "$2" && return
    status=$?
    echo
    room "$status" "$folder" && exit 1
    [ "$status" -lt 128 ] || echo "it is larger than $most MiB and was refused."
    echo "could not fetch $1 (curl's reason is above)."
    echo "Check the route to it, or set {{ setting }} to a mirror; a slow line needs a higher {{ limit_setting }}."
    exit 1
}
if [ -n "$sent" ]; then
    url=$sent
    ln "$sent" "$work/file" 2>/dev/null || cp "$sent" "$work/file"
else
    if [ -z "$expected" ]; then
        judge=$sums_url
        fetch "$sums_url" "$work/sums"
        expected=$(awk -v name="$sums_name" '$2 == name || $2 == "*" name { print $1 }' "$work/sums" | head -n 1)
        if ! printf %s "$expected" | grep -qxE '[0-9a-f]{64}'; then
            echo "$sums_url has no sha256 for $sums_name; it begins: $(begins "$work/sums")"
            redirected "$sums_url" "$work/sums"
            echo "A login page or proxy answers for it, the version does not exist there, or {{ setting }} is wrong."
            exit 1
        fi
    fi
    fetch "$url" "$work/file"
fi
found=$(sha256sum <"$work/file" | cut -c 1-64)
if [ "$found" != "$expected" ]; then
    echo "sha256 of $url is $found"
    echo "$judge says   $expected"
    case "$(begins "$work/file")" in '<'*) echo "It begins: $(begins "$work/file")" ;; esac
    redirected "$url" "$work/file"
    echo "The file was changed or cut on the way and is refused. Try again, or set {{ setting }} to another source."
    exit 1
fi
{% if member %}
# To stdout: no path of an archive is ever used.
member={{ member | quote }}
tar -xzOf "$work/file" "$member" >"$work/member" || {
    echo "$url holds no $member, or one larger than $most MiB: refused."
    echo "Its sum is right, so its publisher or the mirror's sums are not: set {{ setting }} to another source."
    exit 1
}
mv -f "$work/member" "$work/file"
{% endif %}
chmod 755 "$work/file"
{% if shows %}
version={{ version | quote }}
shown=$(timeout 60 "$work/file" {{ shows | map("quote") | join(" ") }} 2>&1 | head -n 1) || true
case " $shown " in
*" $version "*) ;;
*)  echo "$url says of itself: $(printf %s "$shown" | head -c 120); that is not $version: refused."
    echo "An older file is offered under this name, or it does not run here. Set {{ setting }} to another source."
    exit 1 ;;
esac
{% endif %}
sync "$work/file"
rm -f "$dest.sha256"
mv -f "$work/file" "$dest"
echo "$expected" >"$dest.sha256"
echo "$dest"
