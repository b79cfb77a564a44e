# The lists of this one repository. Other sources are left alone: they may be broken, and it is quicker.
set -u
url={{ url | quote }}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
end=$(($(date +%s) + {{ limit }}))
# apt's lock timeout does not cover the lists' lock, and without Error-Mode an unreachable server is a success.
until LC_ALL=C apt-get update -o Dir::Etc::sourcelist={{ source | quote }} -o Dir::Etc::sourceparts=- \
    -o APT::Get::List-Cleanup=0 -o APT::Update::Error-Mode=any -o Acquire::Retries=3 \
    -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 >"$log" 2>&1; do
    if ! grep -q 'Could not get lock' "$log" || [ "$(date +%s)" -ge "$end" ]; then
        grep -E '^(E|W|Err)' "$log"
        case "$(cat "$log")" in
        *'Could not get lock'*)
            echo "another apt or dpkg was still at work: wait for it, or raise toolkit_timeout" ;;
        *NOSPLIT* | *NODATA* | *'Clearsigned file'*)
            echo "$url did not answer with a repository: a login page or proxy is in between, or toolkit_repository_url is wrong" ;;
        *NO_PUBKEY* | *'not signed'* | *BADSIG* | *EXPKEYSIG* | *KEYEXPIRED*)
            echo "$url is not signed by the key {{ fingerprint }}: refused."
            echo "It is another repository or its mirror signs with its own key (toolkit_key_fingerprint), or it was changed on the way." ;;
        *'Redirection from'*)
            echo "$url sends elsewhere: a login page or proxy is in between, or toolkit_repository_url is wrong" ;;
        *'Certificate verification failed'* | *'certificate'*)
            echo "the server's certificate is not trusted here: put its CA in /usr/local/share/ca-certificates and run update-ca-certificates, or set private_ca" ;;
        *)  echo "$url could not be read: check the route to it, or set toolkit_repository_url to a mirror" ;;
        esac
        exit 1
    fi
    echo "waiting for another apt: $(grep -m 1 -o 'Could not get lock.*' "$log")"
    sleep 3
done
version={{ version | quote }}
offered=$(apt-cache madison {{ package | quote }} | cut -d'|' -f2 | tr -d ' ' | sort -u | tr '\n' ' ')
case " $offered" in
*" $version "*) ;;
*)  # Without them the next run asks anew, whatever dates the server's files have.
    apt-get indextargets -o Dir::Etc::sourcelist={{ source | quote }} -o Dir::Etc::sourceparts=- --format '$(FILENAME)' |
        while read -r list; do rm -f "$list" "${list%_Packages*}_InRelease"; done
    echo "$url offers {{ package }} ${offered:-in no version at all}, not $version: refused."
    echo "The mirror is behind or offers an older index. Set toolkit_repository_url to another, or toolkit_version to one it has."
    exit 1 ;;
esac
