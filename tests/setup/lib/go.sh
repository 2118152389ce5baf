# shellcheck shell=bash
# The Go to build with, and its caches inside ours.

GO_TOOLCHAIN_DIR=$CACHE/go/toolchain

# system_go: the machine's own go if it is new enough.
system_go() {
    local go have
    go=$(command -v go) || return 1
    have=$(GOTOOLCHAIN=local "$go" version 2>/dev/null | sed -nE 's/^go version go([0-9.]+).*/\1/p')
    [[ -n $have ]] && version_at_least "$have" "$GO_MINIMUM" && say "$go"
}

# use_go: puts the right go first in PATH and keeps all it stores inside the cache.
use_go() {
    if ! system_go >/dev/null; then export PATH=$GO_TOOLCHAIN_DIR/bin:$PATH; fi
    export GOTOOLCHAIN=local GOWORK=off GOOS=linux GOARCH=amd64 CGO_ENABLED=0
    export GOFLAGS="-modcacherw -buildvcs=false -trimpath"
    export GOMODCACHE=$CACHE/go/mod GOCACHE=$CACHE/go/build GOTMPDIR=$TMP
    unset GOROOT GOPATH GOBIN GOEXPERIMENT
    go version
}
