# k3s' other release: a copy of what it knows, then the link, then a restart. Pods go on meanwhile.
set -eu
umask 077
new={{ binary | quote }} link={{ public | quote }} unit={{ unit | quote }}.service
{% if unit == "k3s" %}
server={{ server | quote }}
db=$server/db copies=$server/hami-k3s-copies
if [ "$(readlink "$link" 2>/dev/null)" != "$new" ]; then
    if [ -d "$db/etcd" ]; then
{% if snapshot %}
        "$link" etcd-snapshot save --name {{ snapshot | quote }}
        "$link" etcd-snapshot prune --name {{ snapshot | quote }} --snapshot-retention {{ keep }}
{% else %}
        echo "another server has made the snapshot"
{% endif %}
    elif [ -n "$(ls -A "$db" 2>/dev/null)" ]; then
        # SQLite has no snapshot of its own; a file that is written to meanwhile would be none
        trap 'systemctl start --no-block $unit' EXIT
        systemctl stop $unit
        copy="$copies/$(date -u +%Y%m%dT%H%M%SZ)-"{{ before | quote }}
        rm -rf "$copies"/*.new
        mkdir -p "$copy.new"
        cp -a "$db" "$server/token" "$copy.new/" || {
            rm -rf "$copy.new"
            echo "the datastore could not be copied to $copies: nothing was changed, k3s is started again as it was"
            exit 1
        }
        mv "$copy.new" "$copy"
        echo "the datastore was copied to $copy"
        ls -1d "$copies"/*Z-* | sort | head -n -{{ keep }} | xargs -r rm -rf
    else
        echo "k3s keeps its state outside of this host (datastore-endpoint): its backup is yours"
    fi
fi
{% endif %}
ln -sfn "$new" "$link.new"
mv -fT "$link.new" "$link"
systemctl daemon-reload
systemctl reset-failed $unit 2>/dev/null || true
trap - EXIT
systemctl restart --no-block $unit
