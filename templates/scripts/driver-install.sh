# NVIDIA's driver: repository with a checked key, the branch pinned, packages, no unattended upgrades of them.
set -u
umask 022
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C
root={{ root | quote }}
branch={{ branch | quote }}
limit={{ limit }}
retry="-o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30"
install() {
    # shellcheck disable=SC2086
    apt-get install --yes --no-install-recommends --allow-downgrades -o DPkg::Lock::Timeout=$limit $retry \
        -o Dpkg::Options::=--force-confold "$@"
}
put() { # text on stdin, renamed in one step
    mkdir -p "$(dirname "$1")" && cat >"$1.new" && mv -f "$1.new" "$1"
}
lists() { # apt's lock timeout does not cover the lists' lock
    tries=$((limit / 3))
    while ! said=$(apt-get update "$@" 2>&1); do
        tries=$((tries - 1))
        case "$said" in *'Could not get lock'*) [ $tries -le 0 ] || { sleep 3; continue; } ;; esac
        printf '%s\n' "$said" | grep -E '^(E|W|Err)'
        return 1
    done
}
# What the driver's packages need comes from the system's own sources.
# shellcheck disable=SC2086
lists $retry || echo "going on with the package lists that are there"
need=
for tool in curl gpg; do command -v $tool >/dev/null || need="$need $tool"; done
# shellcheck disable=SC2086
[ -z "$need" ] || install $need ca-certificates || exit 1
{% if repository %}
repository={{ repository | quote }}
url=$repository/{{ key | quote }}
expected={{ fingerprint | quote }}
key=$root/etc/apt/keyrings/hami-k3s-nvidia-driver.asc
source=$root/etc/apt/sources.list.d/hami-k3s-nvidia-driver.sources
mkdir -p "$(dirname "$key")"
GNUPGHOME=$(mktemp -d) # gpg makes a home for itself, even to read
export GNUPGHOME
trap 'rm -rf "$key.new" "$GNUPGHOME"' EXIT
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
printf '# Written by pyinfra-hami-k3s\nTypes: deb\nURIs: %s\nSuites: /\nSigned-By: %s\n' "$repository" "$key" | put "$source"
# shellcheck disable=SC2086
lists $retry -o Dir::Etc::sourcelist="$source" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 \
    -o APT::Update::Error-Mode=any || {
    echo "$repository could not be read: check the route, or set driver_repository_url to a mirror"
    exit 1
}
{% endif %}
# Versions of other branches keep their usual priority; of the driver's packages this branch wins, today and later.
printf '# Written by pyinfra-hami-k3s\nPackage: *nvidia* cuda-drivers* libcuda* libxnvctrl*\nPin: version %s.*\n%s\n' \
    "$branch" 'Pin-Priority: 1001' | put "$root/etc/apt/preferences.d/50-hami-k3s-nvidia-driver"
# An upgrade under a running module leaves every GPU pod without a card until the next reboot.
put "$root/etc/apt/apt.conf.d/51-hami-k3s-nvidia-driver" <<'END'
// Written by pyinfra-hami-k3s
Unattended-Upgrade::Package-Blacklist { "nvidia-"; "libnvidia-"; "cuda-"; "libcuda"; "linux-modules-nvidia-"; };
END
known() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }
choose() { # the first of these that apt knows, in a version of the branch
    for one in "$@"; do
        known "$one" || continue
        candidate=$(apt-cache policy "$one" | sed -n 's/^ *Candidate: *//p')
        case "$one $candidate" in *"-$branch"* | *" $branch."* | *":$branch."*) chosen="$chosen $one"; return ;; esac
        echo "$one is there as $candidate, which is not of branch $branch (driver_branch)"
        return 1
    done
    echo "apt knows none of $*: this mirror does not have them, or not for this system"
    return 1
}
chosen=
{% for group in packages %}
choose {{ group | map("quote") | join(" ") }} || exit 1
{% endfor %}
# Modules are built for the running kernel, where there are headers of it.
headers=linux-headers-$(uname -r)
known "$headers" && chosen="$chosen $headers"
# shellcheck disable=SC2086
install $chosen || exit 1
# Some of the packages bring no nvidia-smi.
for one in nvidia-driver-cuda "nvidia-utils-$branch-server" "nvidia-utils-$branch" nvidia-smi; do
    command -v nvidia-smi >/dev/null && break
    known "$one" && install "$one"
done
modprobe nvidia 2>/dev/null && modprobe nvidia-uvm 2>/dev/null
echo "driver packages:$chosen"
