#!/bin/bash
# Makes what the demo, the tests and the benches run on, in a cache outside the checkout.
#
#   setup.sh demo|test|bench|check     everything that this command needs
#   setup.sh PART...                   single parts: see README.md
# shellcheck disable=SC2154
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
for lib in common packages preflight progress build go kube; do
    # shellcheck source=/dev/null
    source "$here/lib/$lib.sh"
done

(($# > 0)) || die "say what to set up: demo, test, bench, check, or names of parts (see tests/setup/README.md)."

# expand NAME: parts behind an aggregate.
expand() {
    case $1 in
    demo) say host-packages rootfs kube ;;
    bench) say host-packages rootfs kube uml ;;
    test) say host-packages rootfs kube kube-node runc-nores images uml ;;
    check) ;; # cargo and a C compiler do
    *) say "$1" ;;
    esac
}

# resolve PART: appends to `todo` what is missing, things that a build needs before it.
# What only a build needs is left out where the result is there already.
resolve() {
    local need
    [[ $1 != host-packages && " ${todo[*]} " != *" $1 "* ]] || return 0
    ! part_fresh "$1" || return 0
    for need in $(load_part "$1" && say "$part_needs"); do resolve "$need"; done
    todo+=("$1")
}

# look: fills `todo`, WANTED_PACKAGES and `disk_mb` from the state of the cache.
look() {
    local name
    todo=() disk_mb=0 WANTED_PACKAGES=""
    for name in "${wanted[@]}"; do resolve "$name"; done
    for name in "${todo[@]}"; do
        WANTED_PACKAGES+=" $(load_part "$name" && say "$part_packages")"
        disk_mb=$((disk_mb + $(load_part "$name" && say "$part_disk_mb")))
    done
    export WANTED_PACKAGES
    if ! (load_part host-packages && part_present); then todo=(host-packages "${todo[@]}"); fi
}

# isolated COMMAND...: in a process and mount namespace that dies with this shell, even by kill -9.
isolated() {
    exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc "$@"
}

build() {
    if [[ $1 == host-packages ]]; then
        # Not isolated: a package manager that has begun is better left to end.
        run_part "$1" "$here/build-part.sh" "$1"
    else
        run_part "$1" isolated "$here/build-part.sh" "$1"
    fi
}

take_lock() {
    exec 9>"$CACHE/lock"
    flock -n 9 && return
    say "set-up: another set-up is at work on $CACHE; waiting for it"
    flock 9
}

# prune: Go's compiled packages are large and of no use once every Go program is there.
prune() {
    part_fresh kube && part_fresh kube-node || return 0
    rm -rf "$CACHE/go/build" "$CACHE"/work/kube-*
}

interrupted() {
    stop_running
    say
    say "set-up: interrupted; the same command goes on from here."
    exit 130
}

mapfile -t wanted < <(for name in "$@"; do expand "$name"; done | tr ' ' '\n' | sed '/^$/d')
for name in "${wanted[@]}"; do (load_part "$name") || exit 1; done

check_compiler
check_rust
((${#wanted[@]} > 0)) || exit 0
check_root
check_os
look
((${#todo[@]} > 0)) || exit 0

mkdir -p "$CACHE"/{logs,stamps,tmp,work}
take_lock
rm -rf --one-file-system "$CACHE/tmp"
mkdir "$CACHE/tmp"
look # again: whoever held the lock may have made it
((${#todo[@]} > 0)) || exit 0
check_disk "$disk_mb" "${todo[@]}"
# shellcheck disable=SC2086  # a list of words
[[ ${todo[0]} != host-packages ]] || check_apt $HOST_PACKAGES $WANTED_PACKAGES

trap interrupted INT TERM HUP
say "set-up: making ${todo[*]} in $CACHE (once; logs in $CACHE/logs)"
for name in "${todo[@]}"; do build "$name" || exit 1; done
prune
say "set-up: complete after $(elapsed $SECONDS)"
