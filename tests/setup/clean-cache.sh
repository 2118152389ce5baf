#!/bin/bash
# Removes the cache: everything that the set-up made and CI's build output, and nothing else in that folder.
set -euo pipefail

# shellcheck source=tests/setup/lib/common.sh
source "$(dirname "$0")/lib/common.sh"

[[ -d $CACHE ]] || exit 0
exec 9>"$CACHE/lock"
flock -n 9 || die "a set-up is at work on $CACHE: wait for it or end it, and then run the same command again."
for name in bin go images kube logs next rootfs stamps target-ci tmp uml work lock; do
    rm -rf --one-file-system "${CACHE:?}/$name"
done
rmdir "$CACHE" 2>/dev/null || say "left in place, not made by the set-up: $(ls -d "$CACHE"/*)"
