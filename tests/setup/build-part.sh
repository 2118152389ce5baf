#!/bin/bash
# Builds one part, whatever the state of the cache, and stamps it. Called by setup.sh, which holds the lock;
# output goes to the part's log.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
for lib in common packages build go kube; do
    # shellcheck source=/dev/null
    source "$here/lib/$lib.sh"
done

load_part "$1"
hash=$(part_inputs | sha256sum | cut -d ' ' -f 1)
TMP=$(mktemp -d "$CACHE/tmp/$1.XXXXXX")
export TMP

part_build
part_present || {
    say "error: the build of $1 ended well and its result is not there"
    exit 1
}
say "$hash" >"$TMP/stamp"
mv "$TMP/stamp" "$CACHE/stamps/$1"
step "cleaning up"
rm -rf --one-file-system "$TMP"
