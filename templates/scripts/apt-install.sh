# One transaction. apt waits for another one's dpkg lock and says who holds it.
set -u
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C
# An interrupted dpkg is finished first; it changes nothing otherwise.
[ -z "$(ls -A /var/lib/dpkg/updates 2>/dev/null)" ] || dpkg --configure -a
{% if update %}
apt-get update -o Acquire::Retries=3 || true
{% endif %}
apt-get install --yes --no-install-recommends --allow-downgrades --allow-change-held-packages \
    -o DPkg::Lock::Timeout={{ limit }} -o Dpkg::Options::=--force-confold -o Acquire::Retries=3 \
    -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 {{ packages | map("quote") | join(" ") }} || exit 1
{% if hold %}
apt-mark hold {{ hold | map("quote") | join(" ") }}
{% endif %}
