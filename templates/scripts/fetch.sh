# get URL FILE: curl's exit status; FILE.from is "STATUS URL" of the answer.
get() {
    case "$1" in https:*) redirects='=https' ;; *) redirects='=http,https' ;; esac
    curl --fail --location --proto-redir "$redirects" --progress-bar --show-error --retry 3 --retry-delay 2 \
        --connect-timeout 20 --speed-limit 1000 --speed-time 60 --max-time {{ limit }} --retry-max-time {{ limit }} \
        --write-out '%{http_code} %{url_effective}' --output "$2" "$1" >"$2.from"
}
begins() { head -c 80 "$1" | tr -c '[:print:]' ' '; }
redirected() {
    from=$(cut -d ' ' -f 2- "$2.from" 2>/dev/null) || return 0
    [ "$from" = "$1" ] || [ -z "$from" ] || echo "The answer came from ${from%%\?*}, where the request was redirected."
}
# room STATUS FOLDER: true, with the reason, when curl could not write.
room() {
    [ "$1" = 23 ] || return 1
    echo "it could not be written: $(df -Pk "$2" | awk 'NR == 2 { print $4 }') KiB are free under $2. Free some room there."
}
