# shellcheck shell=bash disable=SC2034,SC2317
# Paths, messages and the freshness of parts. Sourced by every script of the set-up.

SETUP_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CHECKOUT=$(cd "$SETUP_DIR/../.." && pwd)
CACHE=${CAUSEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/causeway}
[[ $CACHE == /* ]] || CACHE=$PWD/$CACHE
export CAUSEWAY_CACHE=$CACHE

set -a
# shellcheck source=tests/setup/versions.env
source "$SETUP_DIR/versions.env"
set +a

part="" part_needs="" part_packages="" part_disk_mb=0 # of the part that is loaded

say() { printf '%s\n' "$*"; }

# die SENTENCE: one sentence that says what is wrong and what to do.
die() {
    printf 'set-up: %s\n' "$*" >&2
    exit 1
}

# elapsed SECONDS: 7s, 2m40s, 1h03m.
elapsed() {
    local s=$1
    if ((s < 60)); then
        printf '%ds' "$s"
    elif ((s < 3600)); then
        printf '%dm%02ds' $((s / 60)) $((s % 60))
    else
        printf '%dh%02dm' $((s / 3600)) $((s % 3600 / 60))
    fi
}

# version_at_least HAVE WANT
version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# load_part NAME: reads a part's definition (see README.md) over the defaults.
load_part() {
    part=$1
    part_needs=""
    part_packages=""
    part_disk_mb=0
    part_inputs() { :; }
    part_present() { return 1; }
    part_build() { return 1; }
    [[ -f $SETUP_DIR/parts/$1.sh ]] || die "there is no part called '$1': see tests/setup/README.md for the names."
    # shellcheck source=/dev/null
    source "$SETUP_DIR/parts/$1.sh"
}

# part_hash NAME: hash of everything pinned that the part is made from.
part_hash() (
    load_part "$1"
    part_inputs | sha256sum | cut -d ' ' -f 1
)

# part_fresh NAME: the part is there and made from what is pinned now.
part_fresh() (
    load_part "$1"
    part_present || exit 1
    stamp=$CACHE/stamps/$1
    [[ -f $stamp && $(<"$stamp") == "$(part_hash "$1")" ]]
)
