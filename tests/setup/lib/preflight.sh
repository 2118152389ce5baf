# shellcheck shell=bash disable=SC2015
# What must hold before anything starts. Each check prints one sentence that says what to do.
# The small functions on top are the facts; tests replace them.

fact_uid() { id -u; }
fact_os() { (. /etc/os-release 2>/dev/null && printf '%s %s' "${ID:-?}" "${VERSION_ID:-?}"); }
fact_architecture() { uname -m; }
fact_has() { command -v "$1" >/dev/null; }
fact_free_mb() {
    local dir=$CACHE
    while [[ ! -d $dir ]]; do dir=$(dirname "$dir"); done
    df --output=avail -m "$dir" | tail -n 1 | tr -d ' '
}
fact_rust_pin() { sed -n 's/^channel *= *"\(.*\)"/\1/p' "$CHECKOUT/rust-toolchain.toml" 2>/dev/null; }
fact_rust_version() { (cd "$CHECKOUT" && rustc --version 2>/dev/null) | cut -d ' ' -f 2; }

check_root() {
    [[ $(fact_uid) == 0 ]] ||
        die "the test rig makes namespaces and mounts, so it needs root: run the same command in a root shell (sudo -i)."
}

check_os() {
    [[ ${CAUSEWAY_ANY_OS:-} == 1 ]] && return
    [[ $(fact_os) == "debian $HOST_DEBIAN_VERSION" && $(fact_architecture) == "$HOST_ARCHITECTURE" ]] ||
        die "this is $(fact_os) on $(fact_architecture), tested is Debian $HOST_DEBIAN_VERSION on $HOST_ARCHITECTURE: use such a machine, or set CAUSEWAY_ANY_OS=1 to try all the same."
}

check_rust() {
    fact_has cargo && fact_has rustc ||
        die "cargo and rustc are missing: install Rust with rustup, open a new shell and run the same command again."
    local pin have
    pin=$(fact_rust_pin) || true
    have=$(fact_rust_version) || true
    [[ -z $pin || $have == "$pin" ]] ||
        die "Rust $pin is needed and rustc says '${have:-nothing}': run 'rustup toolchain install $pin' in the checkout."
}

check_compiler() {
    fact_has cc && fact_has make ||
        die "a C compiler and make are missing: run 'apt-get install build-essential' and then the same command again."
}

# check_disk MB PART...: enough room for the parts that are missing.
check_disk() {
    local need=$1 free
    shift
    free=$(fact_free_mb)
    ((free >= need)) ||
        die "the missing parts ($*) need about $need MB in $CACHE and $free MB are free: free some space, or set CAUSEWAY_CACHE to a folder on a larger disk."
}

# check_apt PACKAGE...: packages have to be installed and can be.
check_apt() {
    fact_has apt-get && fact_has dpkg-query ||
        die "apt-get is not there, so these Debian packages cannot be installed: $*; install what corresponds to them by hand, or use Debian $HOST_DEBIAN_VERSION."
}
