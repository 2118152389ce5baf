# shellcheck shell=bash disable=SC2034
# Debian packages of the machine itself.

# What the rig uses on the machine whatever is built.
HOST_PACKAGES="ca-certificates iproute2 mount procps python3 util-linux"

# missing_packages NAME...: those that are not installed, one a line.
missing_packages() {
    command -v dpkg-query >/dev/null || return 0 # not a Debian system: the user vouches for it
    local have name
    have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
    for name in "$@"; do
        grep -qxF "installed $name" <<<"$have" || say "$name"
    done
}

# apt_update_once: package lists are read once per run of the set-up.
apt_update_once() {
    [[ -e $CACHE/tmp/apt-updated ]] && return
    step "reading package lists"
    apt-get -q -o DPkg::Lock::Timeout=600 update
    : >"$CACHE/tmp/apt-updated"
}

# finish_interrupted: ends what an earlier run left half done, or waits while that still runs.
finish_interrupted() {
    local try
    for try in {1..60}; do
        dpkg --configure -a && return
        step "waiting for another package manager, $try"
        sleep 5
    done
    return 1
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    finish_interrupted
    apt_update_once
    step "installing $*"
    apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 install --no-install-recommends "$@"
}
