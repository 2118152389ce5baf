#!/bin/bash
# Tests of the set-up itself that need neither network nor root: a second, part of `make check`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export CAUSEWAY_CACHE=$tmp/cache
failures=0

# expect NAME WANTED GOT
expect() {
    [[ $3 == "$2" ]] && return
    printf 'FAILED: %s\n--- wanted\n%s\n--- got\n%s\n' "$1" "$2" "$3" >&2
    failures=$((failures + 1))
}

# expect_refusal NAME PATTERN COMMAND...: ends with 1 and one sentence that matches.
expect_refusal() {
    local name=$1 pattern=$2 got rc=0
    shift 2
    got=$("$@" 2>&1) || rc=$?
    [[ $rc == 1 && $got == "set-up: "$pattern && $(wc -l <<<"$got") == 1 ]] || expect "$name" "1 $pattern" "$rc $got"
}

# versions.env: only KEY="value" lines, each key once, no part without its pins.
expect "versions.env holds plain assignments" "" "$(grep -vE '^(#.*|[A-Z][A-Z0-9_]*="[A-Za-z0-9 .:=_+~-]+")?$' "$here/versions.env" || true)"
expect "versions.env sets each key once" "" "$(sed -n 's/^\([A-Z0-9_]*\)=.*/\1/p' "$here/versions.env" | sort | uniq -d)"

# Counting.
cat >"$tmp/log" <<'LOG'
    Finished `test` profile [unoptimized + debuginfo] target(s) in 1.00s
     Running unittests src/lib.rs (target/debug/deps/causeway_api-0123)
test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
     Running tests/api_crd.rs (target/debug/deps/api_crd-0123)
running 3 tests
test one ... FAILED

failures:

---- one ----
it wrote 1 times

and said so
in many
lines

---- two stdout ----

thread 'two' panicked at src/lib.rs:1:1:
boom

failures:
    one
    two

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 3.01s
     Running tests/unit_arrows.rs (target/debug/deps/unit_arrows-0123)
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
     Running tests/cluster_demo.rs (target/debug/deps/cluster_demo-0123)
     Running tests/kernel_card.rs (target/debug/deps/kernel_card-0123)
test result: ok. 12 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out
   Doc-tests causeway_api
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
LOG
expect "counts by level, and why what failed did" \
    "failed: one
    it wrote 1 times
    and said so
    in many
failed: two
    thread 'two' panicked at src/lib.rs:1:1:
    boom
level     passed  failed skipped
unit          11       0       1
api            2       1       0
switch         0       0       0
cluster        0       1       0
kernel        12       0       2
no result (counted as failed): tests/cluster_demo.rs
25 passed, 2 failed, 3 skipped" "$("$here/count-tests.sh" "$tmp/log")"

# A fresh clone has no programs: what starts them has them built before.
for command in demo bench soak; do
    first=$(make -s -n -C "$here/../.." "$command" | grep -oE 'cargo (build .*--workspace --bins|run|test)' | head -n 1)
    [[ $first == 'cargo build '*'--workspace --bins' ]] || expect "make $command builds the programs first" "cargo build" "$first"
done

# Pre-flight: the facts are replaced, the sentences are real.
for lib in common packages preflight progress; do
    # shellcheck source=/dev/null
    source "$here/lib/$lib.sh"
done
fact_uid() { say 1000; }
fact_os() { say "debian 13"; }
fact_free_mb() { say 100; }
fact_rust_pin() { say 1.95.0; }
fact_rust_version() { say 1.80.0; }
expect_refusal "not root" "*root shell*" check_root
expect_refusal "another system" "*debian 13*CAUSEWAY_ANY_OS=1*" check_os
expect_refusal "full disk" "*(kube uml)*about 9000 MB*100 MB are free*CAUSEWAY_CACHE*" check_disk 9000 kube uml
expect_refusal "wrong Rust" "*rustup toolchain install 1.95.0*" check_rust
fact_has() { return 1; }
expect_refusal "no Rust" "*rustup*" check_rust
expect_refusal "no compiler" "*build-essential*" check_compiler
expect_refusal "no apt" "*flex bison*" check_apt flex bison
expect_refusal "unknown part" "*no part called 'nonsense'*" load_part nonsense
CAUSEWAY_ANY_OS=1 check_os
expect "elapsed time" "7s 2m40s 1h03m" "$(elapsed 7) $(elapsed 160) $(elapsed 3780)"
version_at_least 1.26.8 1.26 || expect "1.26.8 is new enough" yes no
! version_at_least 1.9.1 1.26 || expect "1.9.1 is too old" no yes

# Freshness: there and stamped with what is pinned now, else it is made again.
mkdir -p "$CACHE"/{stamps,kube/bin}
for program in kube-apiserver kube-controller-manager kubectl; do
    install -m 755 /dev/null "$CACHE/kube/bin/$program"
done
# shellcheck source=/dev/null
source "$here/lib/kube.sh"
! part_fresh kube || expect "no stamp" stale fresh
part_hash kube >"$CACHE/stamps/kube"
part_fresh kube || expect "right stamp" fresh stale
! KUBERNETES_VERSION=1.0.0 part_fresh kube || expect "another pin" stale fresh
rm "$CACHE/kube/bin/kubectl"
! part_fresh kube || expect "a file is gone" stale fresh

# Failure: the log's last lines and what to do.
mkdir -p "$CACHE"/{logs,tmp}
got=$(run_part demo bash -c 'echo "dial tcp: i/o timeout"; exit 3' 2>&1) && expect "failure is reported" 1 0
[[ $got == *"    dial tcp: i/o timeout"*"could not be reached"* ]] || expect "advice on a failure" "... could not be reached ..." "$got"

((failures == 0)) || exit 1
echo "set-up: self-test passed"
