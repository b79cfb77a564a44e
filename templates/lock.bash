# Holds this host's lock for as long as the other end of stdin lives and says so. Its first line names the run.
# The kernel lets go when this shell ends, however it ends; silence counts as an end, for a line that was cut
# without a word keeps its session for hours.
umask 077
lock={{ lock | quote }}
command -v flock >/dev/null || { echo "flock is not there: install util-linux" >&2; exit 1; }
exec 9>>"$lock" || exit 1
read -r owner || exit 1
if ! flock -n 9; then
    echo "busy $(($(date +%s) - $(stat -c %Y "$lock"))) $(cat "$lock")"
    exit 0
fi
printf '%s %s\n' $$ "$owner" >"$lock"
units=$(systemctl list-units --plain --no-legend --state=active,activating,deactivating '{{ unit }}' 9>&- | cut -d ' ' -f 1)
echo held $units
while read -r -t {{ silence }} beat; do printf '%s %s\n' $$ "$owner" >"$lock"; done
