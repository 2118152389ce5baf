# shellcheck shell=bash disable=SC2034
# The root file system with the next OVN, as a cache of its own: everything else in it is a link to the usual one, so
# that the rig finds all its parts there (CAUSEWAY_CACHE).

# shellcheck source=tests/setup/parts/rootfs.sh
source "$SETUP_DIR/parts/rootfs.sh"

suite=$NEXT_SUITE expect_versions=$NEXT_EXPECT pin=NEXT_EXPECT tree=$CACHE/next/rootfs
# A mirror of a suite that moves may be some days behind.
suite_options=(--aptopt='Acquire::Check-Valid-Until "false"')

# The links are made with the tree: they lead to where the other parts will be, whether those are there yet or not.
part_build() {
    local name
    mkdir -p "$CACHE/next"
    for name in kube bin images uml; do ln -sfn "../$name" "$CACHE/next/$name"; done
    make_tree
}
