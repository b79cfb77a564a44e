# One transaction. apt waits for another one's dpkg lock and says who holds it.
set -u
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C
# An interrupted dpkg is finished first; it changes nothing otherwise.
[ -z "$(ls -A /var/lib/dpkg/updates 2>/dev/null)" ] || dpkg --configure -a
{% if update %}
apt-get update -o Acquire::Retries=3 || true
{% endif %}
{% for package, sum in sums.items() %}
found=$(apt-get download --print-uris {{ package | quote }} | sed -n 's/.* SHA256:\([0-9a-f]*\)$/\1/p' | head -n 1)
if [ "$found" != {{ sum | quote }} ]; then
    echo "sha256 of {{ package }} in the repository's index is ${found:-not there}"
    echo "{{ judge }} says   {{ sum }}"
    echo "The package was published again or the repository is another one: refused, nothing was installed."
    exit 1
fi
{% endfor %}
apt-get install --yes --no-install-recommends --allow-downgrades --allow-change-held-packages \
    -o DPkg::Lock::Timeout={{ limit }} -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 \
    -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 {{ packages | map("quote") | join(" ") }} || exit 1
{% if hold %}
apt-mark hold {{ hold | map("quote") | join(" ") }}
{% endif %}
