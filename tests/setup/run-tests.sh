#!/bin/bash
# Runs every test with cargo, keeps the output and ends with the counts by level. Exit code: cargo's.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
output=${CARGO_TARGET_DIR:-$here/../../target}/test-output.log
mkdir -p "$(dirname "$output")"

cd "$here/../.." || exit 1
# A level that cannot run here is a failure, not a skip.
export CAUSEWAY_REQUIRE=${CAUSEWAY_REQUIRE-api,switch,cluster,kernel}
# The rig starts the programs themselves, which `cargo test` alone does not build.
cargo build --workspace --bins || exit 1
cargo test --workspace --no-fail-fast "$@" 2>&1 | tee "$output"
rc=${PIPESTATUS[0]}
echo
"$here/count-tests.sh" "$output"
exit "$rc"
