# shellcheck shell=bash disable=SC2034
# The container images of the rig, as archives made from local files: no registry is involved.

part_needs="rootfs"
part_disk_mb=20

part_inputs() {
    cat "$SETUP_DIR"/images/*
    part_hash rootfs # busybox is taken from there
}

part_present() { [[ -f $CACHE/images/pause.tar && -f $CACHE/images/busybox.tar ]]; }

part_build() {
    step "making pause and busybox"
    cc -Os -static -s -Wall -Werror -o "$TMP/pause" "$SETUP_DIR/images/pause.c"
    "$SETUP_DIR/images/make_image.py" --ref rig/pause:1 --out "$TMP/pause.tar" \
        --file "$TMP/pause=/pause" --entrypoint /pause
    "$SETUP_DIR/images/make_image.py" --ref rig/busybox:1 --out "$TMP/busybox.tar" \
        --file "$CACHE/rootfs/usr/bin/busybox=/bin/busybox" --busybox-links --command sh
    place "$TMP/pause.tar" "$CACHE/images/pause.tar"
    place "$TMP/busybox.tar" "$CACHE/images/busybox.tar"
}
