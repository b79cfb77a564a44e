# NVIDIA's driver: repository with a checked key, the branch pinned, packages, no unattended upgrades of them.
set -u
umask 022
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C
lock="-o DPkg::Lock::Timeout={{ limit }}"
retry="-o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30"
put() { # text on stdin, renamed in one step
    mkdir -p "$(dirname "$1")" && cat >"$1.new" && mv -f "$1.new" "$1"
}
need=
for tool in curl gpg; do command -v $tool >/dev/null || need="$need $tool"; done
if [ -n "$need" ]; then
    apt-get update $retry || true
    # shellcheck disable=SC2086
    apt-get install --yes --no-install-recommends $lock $need ca-certificates || exit 1
fi
{% if repository %}
key=/etc/apt/keyrings/hami-k3s-nvidia-driver.asc
url={{ (repository ~ "/" ~ key) | quote }}
expected={{ fingerprint | quote }}
mkdir -p /etc/apt/keyrings
trap 'rm -f "$key.new"' EXIT
curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 --max-time 60 --max-filesize 1000000 \
    --output "$key.new" "$url" || {
    echo "the key could not be fetched from $url: check the route, or set driver_repository_url to a mirror"
    exit 1
}
found=$(gpg --batch --with-colons --show-keys "$key.new" 2>/dev/null |
    awk -F: '$1 == "pub" { pub = 1 } $1 == "fpr" && pub { print $10; pub = 0 }')
if [ "$found" != "$expected" ]; then
    echo "$url is ${found:-no key}, expected $expected: refused. driver_key_fingerprint is the setting for it."
    exit 1
fi
mv -f "$key.new" "$key"
put /etc/apt/sources.list.d/hami-k3s-nvidia-driver.sources <<END
# Written by pyinfra-hami-k3s
Types: deb
URIs: {{ repository }}
Suites: /
Signed-By: $key
END
{% endif %}
# Versions of other branches keep their usual priority; of the driver's packages this branch wins, today and later.
put /etc/apt/preferences.d/50-hami-k3s-nvidia-driver <<END
# Written by pyinfra-hami-k3s
Package: *nvidia* cuda-drivers* libcuda* libxnvctrl*
Pin: version {{ branch }}.*
Pin-Priority: 1001
END
# An upgrade under a running module leaves every GPU pod without a card until the next reboot.
put /etc/apt/apt.conf.d/51-hami-k3s-nvidia-driver <<END
// Written by pyinfra-hami-k3s
Unattended-Upgrade::Package-Blacklist { "nvidia-"; "libnvidia-"; "cuda-"; "libcuda"; "linux-modules-nvidia-"; };
END
end=$(($(date +%s) + {{ limit }}))
until apt-get update $retry -o APT::Update::Error-Mode=any >/tmp/hami-k3s-driver-update 2>&1; do
    if ! grep -q 'Could not get lock' /tmp/hami-k3s-driver-update || [ "$(date +%s)" -ge "$end" ]; then
        grep -E '^(E|W|Err)' /tmp/hami-k3s-driver-update
        rm -f /tmp/hami-k3s-driver-update
        exit 1
    fi
    sleep 3
done
rm -f /tmp/hami-k3s-driver-update
known() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }
chosen=
{% for group in packages %}
name=
for one in {{ group | map("quote") | join(" ") }}; do known "$one" && { name=$one; break; }; done
if [ -z "$name" ]; then
    echo "apt knows none of {{ group | join(", ") }}: driver_branch {{ branch }} is not in this repository, or it is a wrong mirror"
    exit 1
fi
case "$(apt-cache policy "$name" | sed -n 's/^ *Candidate: *//p')" in
*{{ branch }}.* | *-{{ branch }}*) ;;
*) echo "$name has no version of branch {{ branch }} (candidate $(apt-cache policy "$name" | sed -n 's/^ *Candidate: *//p'))"; exit 1 ;;
esac
chosen="$chosen $name"
{% endfor %}
# Modules are built for the running kernel, where there are headers of it.
headers=linux-headers-$(uname -r)
known "$headers" && chosen="$chosen $headers"
# shellcheck disable=SC2086
apt-get install --yes --no-install-recommends --allow-downgrades $lock $retry -o Dpkg::Options::=--force-confold $chosen ||
    exit 1
# Some of the packages bring no nvidia-smi.
for one in nvidia-driver-cuda nvidia-utils-{{ branch }}-server nvidia-utils-{{ branch }} nvidia-smi; do
    command -v nvidia-smi >/dev/null && break
    known "$one" && apt-get install --yes --no-install-recommends $lock $retry "$one"
done
modprobe nvidia 2>/dev/null && modprobe nvidia-uvm 2>/dev/null
echo "driver packages:$chosen"
