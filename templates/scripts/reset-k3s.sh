# k3s with all its data, then what this project kept for it.
set -eu
root={{ root | quote }}
mkdir -p "$root"{{ library }}
: >"$root"{{ begun }}
"$root"/usr/local/bin/k3s-uninstall.sh
{% if paths %}
rm -rf {{ paths | map("quote") | join(" ") }}
{% endif %}
rmdir {{ folders | map("quote") | join(" ") }} 2>/dev/null || true
