# shellcheck shell=bash disable=SC2154
# For the builds themselves: progress steps, folders, and putting results in place in one move.

# step TEXT: what is going on now; the progress line shows it, the log keeps it.
step() {
    say "== $(date +%T) $*"
    [[ -z ${STEP_FILE:-} ]] || say "$*" >"$STEP_FILE"
}

# work_dir NAME: a folder that outlives an interrupted build, so that the next one goes on from there.
work_dir() {
    mkdir -p "$CACHE/work/$1"
    say "$CACHE/work/$1"
}

# place SOURCE DESTINATION: swaps a finished file or tree in. From here until the stamp the part counts as missing.
place() {
    rm -f "$CACHE/stamps/$part"
    mkdir -p "$(dirname "$2")"
    if [[ -d $2 ]]; then mv "$2" "$TMP/replaced.$RANDOM"; fi
    mv -T "$1" "$2"
}
