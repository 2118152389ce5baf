# shellcheck shell=bash
# Runs one part's build with its output in a log and its progress on stdout.

REPORT_EVERY=20 # seconds between lines where stdout is not a terminal

running="" # process of the build, for the signal handler

# progress_line TEXT: one updating line on a terminal, else a line of its own.
progress_line() {
    if [[ -t 1 ]]; then printf '\r\033[K%s' "$1"; else say "$1"; fi
}

# advice LOG: one sentence on what to do about a failure.
advice() {
    local last
    last=$(tail -n 60 "$1")
    if grep -qiE 'no space left' <<<"$last"; then
        say "The disk is full: free some space (or set CAUSEWAY_CACHE to a larger disk) and run the same command again."
    elif grep -qiE 'could not resolve|temporary failure|dial tcp|i/o timeout|network is unreachable|connection (refused|reset|timed out)|failed to fetch|no matching distribution' <<<"$last"; then
        say "A package source could not be reached: check network and proxy settings and run the same command again; what was downloaded is kept."
    elif grep -qiE 'killed|out of memory|cannot allocate' <<<"$last"; then
        say "The machine ran out of memory or the build was killed: give it 4 GB of free memory and run the same command again."
    else
        say "Read the log, then run the same command again; finished parts are kept."
    fi
}

# run_part NAME COMMAND...: 0, or explains the failure and returns 1.
run_part() {
    local name=$1 log=$CACHE/logs/$1.log start=$SECONDS next=0 spent what rc=0
    shift
    export STEP_FILE=$CACHE/tmp/step
    say "preparing" >"$STEP_FILE"
    "$@" </dev/null >"$log" 2>&1 9>&- & # 9 is the lock: only setup.sh holds it
    running=$!
    while kill -0 "$running" 2>/dev/null; do
        spent=$((SECONDS - start))
        what=$(<"$STEP_FILE")
        if [[ -t 1 ]]; then
            progress_line "$name: $what, $(elapsed "$spent")"
        elif ((spent >= next)); then
            progress_line "$name: $what, $(elapsed "$spent")"
            next=$((spent + REPORT_EVERY))
        fi
        sleep 0.2
    done
    wait "$running" || rc=$?
    running=""
    spent=$(elapsed $((SECONDS - start)))
    if ((rc == 0)); then
        progress_line "$name: done in $spent"
        [[ ! -t 1 ]] || echo
        return 0
    fi
    progress_line "$name: failed after $spent ($(<"$STEP_FILE")); the last lines of $log:"
    [[ ! -t 1 ]] || echo
    {
        tail -n 20 "$log" | sed 's/^/    /'
        say "$name: $(advice "$log")"
    } >&2
    return 1
}

# stop_running: ends the build with everything it started.
stop_running() {
    [[ -z $running ]] || kill -KILL "$running" 2>/dev/null || true
}
