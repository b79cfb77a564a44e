# The toolkit's packages with their configuration, then the repository; its key and source last, so that an interrupted
# removal is seen and done again.
set -u
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C
root={{ root | quote }}
[ -z "$(ls -A "$root/var/lib/dpkg/updates" 2>/dev/null)" ] || dpkg --configure -a
{% if packages %}
purge() {
    apt-get purge --yes --allow-change-held-packages -o DPkg::Lock::Timeout={{ limit }} "$@" \
        {{ packages | map("quote") | join(" ") }}
}
others=$(purge --simulate 2>/dev/null | awk '$1 == "Remv" || $1 == "Purg" { print $2 }' | sort -u |
    grep -vxF{% for package in packages %} -e {{ package | quote }}{% endfor %})
if [ -n "$others" ]; then
    echo "other packages need the toolkit and would go with it:" $others
    echo "Remove them first if they are not used, or leave reset_toolkit out."
    exit 1
fi
purge || exit 1
{% endif %}
rm -rf "$root/etc/nvidia-container-runtime"
rm -f{% for package in all %} "$root/var/cache/apt/archives/"{{ package | quote }}_*.deb{% endfor %}

{% if authority %}
rm -f "$root"{{ authority }}*
! command -v update-ca-certificates >/dev/null || update-ca-certificates --fresh || exit 1
rm -f "$root/etc/ssl/certs/hami-k3s.pem" "$root"{{ library }}/private-ca.*
{% endif %}
source=$root{{ source }}
[ ! -f "$source" ] || apt-get indextargets -o Dir::Etc::sourcelist="$source" -o Dir::Etc::sourceparts=- \
    --format '$(FILENAME)' | while read -r list; do rm -f "$list" "${list%_Packages*}_InRelease"; done
for file in "$root"/etc/apt/sources.list{{ aside }} "$root"/etc/apt/sources.list.d/*{{ aside }}; do
    [ ! -e "$file" ] || [ -e "${file%{{ aside }}}" ] || mv -f "$file" "${file%{{ aside }}}"
done
rm -rf "$root"{{ store }} "$root"{{ key }}* "$source"
rmdir {{ folders | map("quote") | join(" ") }} 2>/dev/null
exit 0
