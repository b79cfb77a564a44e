# The repository's key: fetched, checked against its fingerprint, then put in place in one step.
set -eu
umask 022
url={{ (url ~ "/gpgkey") | quote }}
key={{ key | quote }}
expected={{ fingerprint | quote }}
new=$key.new
mkdir -p "$(dirname "$key")"
GNUPGHOME=$(mktemp -d) # gpg makes a home for itself, even to read
export GNUPGHOME
trap 'rm -rf "$new" "$new.from" "$GNUPGHOME"' EXIT
ulimit -f 2048
case "$url" in
file:*) fetch() { cp "${url#file://}" "$new"; } ;;
*)  redirects='=http,https'
    case "$url" in https:*) redirects='=https' ;; esac
    fetch() {
        curl --fail --silent --show-error --location --proto-redir "$redirects" --retry 3 --connect-timeout 20 \
            --max-time 60 --write-out '%{url_effective}' --output "$new" "$url" >"$new.from"
    } ;;
esac
fetch || {
    echo "the key could not be fetched from $url (curl's reason is above)."
    echo "Check the route to it, or set toolkit_repository_url to a mirror."
    exit 1
}
found=$(gpg --batch --with-colons --show-keys "$new" 2>/dev/null |
    awk -F: '$1 == "pub" { pub = 1 } $1 == "fpr" && pub { print $10; pub = 0 }')
if [ -z "$found" ]; then
    echo "$url is not an OpenPGP key; it begins: $(head -c 80 "$new" | tr -c '[:print:]' ' ')"
    from=$(cat "$new.from" 2>/dev/null) && [ "$from" != "$url" ] && echo "The answer came from ${from%%\?*}."
    echo "Something in between answers for the repository (a login page, a proxy), or toolkit_repository_url is wrong."
    exit 1
fi
if [ "$found" != "$expected" ]; then
    echo "$url is the key $(echo $found), expected $expected: refused."
    echo "If the repository changed its key, or this mirror signs with its own, set toolkit_key_fingerprint to it"
    echo "after you have checked it with its owner."
    exit 1
fi
chmod 644 "$new"
mv -f "$new" "$key"
echo "key $expected"
