# shellcheck shell=bash
# Builds programs of Kubernetes as tools of a throw-away Go module: no source checkout, no container.

KUBE_PACKAGE=k8s.io/kubernetes

kube_inputs() { say "kubernetes $KUBERNETES_VERSION recipe 1: $*"; }

kube_present() {
    local program
    for program in "$@"; do [[ -x $CACHE/kube/bin/$program ]] || return 1; done
}

# kube_module DIR: writes go.mod. The main module's own replace lines do not reach a user of the module,
# so every staging module is sent to its published version here.
kube_module() {
    local upstream module
    upstream=$(go mod download -json "$KUBE_PACKAGE@v$KUBERNETES_VERSION" | sed -nE 's/^\s*"GoMod": "(.*)",?$/\1/p')
    [[ -f $upstream ]] || return 1
    {
        printf 'module causeway.test/kube\n\ngo %s\n\n' "$(sed -nE 's/^go (.*)$/\1/p' "$upstream")"
        printf 'require %s v%s\n\n' "$KUBE_PACKAGE" "$KUBERNETES_VERSION"
        sed -nE 's/^\s*(replace )?(k8s\.io\/[a-z0-9-]+) => \.\/staging\/.*/\2/p' "$upstream" | while read -r module; do
            printf 'replace %s => %s v0.%s\n' "$module" "$module" "${KUBERNETES_VERSION#*.}"
        done
    } >"$1/go.mod.new"
    grep -q '^replace ' "$1/go.mod.new" || return 1
    mv "$1/go.mod.new" "$1/go.mod"
}

# kube_build PROGRAM...
kube_build() {
    local dir program major minor package flags="-s -w"
    use_go
    dir=$(work_dir "kube-$KUBERNETES_VERSION")
    IFS=. read -r major minor _ <<<"$KUBERNETES_VERSION"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=v$KUBERNETES_VERSION -X $package.gitMajor=$major -X $package.gitMinor=$minor"
    done
    if [[ ! -f $dir/go.mod ]]; then
        step "downloading Go modules"
        kube_module "$dir"
    fi
    for program in "$@"; do
        step "building $program"
        (cd "$dir" && go build -mod=mod -ldflags "$flags" -o "$TMP/$program" "$KUBE_PACKAGE/cmd/$program")
        "$TMP/$program" --version 2>/dev/null || "$TMP/$program" version --client
    done
    for program in "$@"; do place "$TMP/$program" "$CACHE/kube/bin/$program"; done
}
