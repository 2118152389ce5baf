# shellcheck shell=bash disable=SC2034
# The wrapper of runc for machines without all cgroup controllers; the source is ours.

part_needs="go"
part_disk_mb=200

part_inputs() { cat "$SETUP_DIR"/runc-nores/*; }
part_present() { [[ -x $CACHE/bin/runc-nores ]]; }

part_build() {
    use_go
    cd "$SETUP_DIR/runc-nores" || return
    step "testing"
    go test ./...
    step "building"
    go build -ldflags "-s -w" -o "$TMP/runc-nores" .
    place "$TMP/runc-nores" "$CACHE/bin/runc-nores"
}
