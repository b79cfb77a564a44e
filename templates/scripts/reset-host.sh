# What was configured for HAMi on this host, and what HAMi left on it.
set -u
{% if held %}
end=$(($(date +%s) + {{ limit }}))
until said=$(LC_ALL=C apt-mark unhold {{ held | map("quote") | join(" ") }} 2>&1); do
    case "$said" in *lock*) [ "$(date +%s)" -ge "$end" ] || { sleep 3; continue; } ;; esac
    printf '%s\n' "$said"
    exit 1
done
{% endif %}
{% if rewritten %}
(
{{ rewritten }}) || exit 1
{% endif %}
{% if paths %}
rm -rf {{ paths | map("quote") | join(" ") }} || exit 1
{% endif %}
rmdir {{ folders | map("quote") | join(" ") }} 2>/dev/null
exit 0
