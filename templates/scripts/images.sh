# Image archives in k3s' images folder. Each is checked where it arrived, then linked; the list is written last.
set -eu
umask 022
store={{ store | quote }}
folder={{ folder | quote }}
judge={{ judge | quote }}
mkdir -p "$store" "$folder"
rm -rf "$store"/.images.*
work=$(mktemp -d "$store/.images.XXXXXX")
trap 'rm -rf "$work"' EXIT
# No file may grow past this: a body without end does not fill the disk.
most={{ most_mib }}
ulimit -f $((most * 2048))
{% include "scripts/fetch.sh" %}
# whole FILE PATTERN: an archive with this index.json, whose other members are named by their own sums. containerd takes
# from it what the index names, so all of it is what the lock names. Nothing is unpacked.
whole() {
    tar -tvf "$1" >"$work/list" 2>/dev/null && tar -tf "$1" >"$work/names" 2>/dev/null || return 1
    ! grep -qv '^-' "$work/list" && ! grep -qvxE 'oci-layout|index\.json|blobs/sha256/[0-9a-f]{64}' "$work/names" || return 1
    tar -xOf "$1" index.json >"$work/index" && [ "$(wc -l <"$work/index")" = 0 ] && grep -qxE -e "$2" "$work/index" || return 1
    tar -xf "$1" --to-command='printf "%s %s\n" "$(sha256sum | cut -c 1-64)" "$TAR_FILENAME"' >"$work/sums" || return 1
    awk '$2 ~ /^blobs/ && $2 != "blobs/sha256/" $1 { bad = 1 } END { exit bad }' "$work/sums"
}
# take NAME URL SHA256 PATTERN WHAT LINK
take() {
    file=$store/$1 got=$work/got from=${2:-$store/$1}
    rm -f "$work"/*
    if [ -f "$file" ]; then
        got=$file
    else
        echo "${1##*/}"
        get "$2" "$got" || {
            status=$?
            echo
            case "$(cat "$got.from" 2>/dev/null)" in
            404*)
                echo "$2 is not there: what k3s lacks of it, it pulls by digest"
                return 0 ;;
            esac
            room "$status" "$store" && exit 1
            [ "$status" -lt 128 ] || echo "it is larger than $most MiB and was refused."
            echo "could not fetch $2 (curl's reason is above)."
            echo "Check the route to it, or set mirror to another one; a slow line needs a higher k3s_download_timeout."
            exit 1
        }
    fi
    if [ -n "$3" ]; then
        found=$(sha256sum <"$got" | cut -c 1-64)
        [ "$found" = "$3" ] || refuse "sha256 of $from is $found" "$judge says   $3"
    else
        whole "$got" "$4" || refuse "$from is another image: $(grep -ao 'sha256:[0-9a-f]*' "$work/index" 2>/dev/null | head -n 1)" \
            "$judge says $5"
    fi
    if [ "$got" != "$file" ]; then
        mkdir -p "$(dirname "$file")"
        sync "$got"
        mv -f "$got" "$file"
    fi
    ln -f "$file" "$folder/$6" 2>/dev/null || cp "$file" "$folder/$6"
    kept="$kept ! -name $6"
}
refuse() {
    printf '%s\n' "$1" "$2"
    case "$(begins "$got")" in '<'*) echo "It begins: $(begins "$got")" ;; esac
    redirected "$from" "$got"
    echo "It was changed or cut on the way, or is of another bundle: refused. Make the bundle again, or name another mirror."
    rm -f "$got"
    exit 1
}
kept=
{% for one in archives %}
take {{ one.name | quote }} {{ one.url | quote }} {{ one.sha256 | quote }} {{ one.index | quote }} {{ one.what | quote }} {{ links[one.name] | quote }}
{% endfor %}
find "$folder" -maxdepth 1 -name {{ (prefix ~ "*") | quote }} $kept -delete
cat >{{ list_file | quote }}.new <<'HAMI_K3S_LIST'
{{ list -}}
HAMI_K3S_LIST
mv -f {{ list_file | quote }}.new {{ list_file | quote }}
