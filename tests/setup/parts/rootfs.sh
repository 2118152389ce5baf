# shellcheck shell=bash disable=SC2034,SC2154
# The root file system of nodes and of the test kernel: a Debian tree with the network software, nothing of ours.

part_packages="mmdebstrap debian-archive-keyring"
part_disk_mb=1500

packages=(
    # what the product talks to
    openvswitch-switch ovn-central ovn-host frr nftables iptables conntrack
    # what carries Kubernetes
    etcd-server containerd runc
    # what runs and looks into a node
    systemd dbus iproute2 ethtool procps util-linux mount kmod python3 openssl ca-certificates
    iputils-ping iputils-arping tcpdump curl netcat-openbsd iperf3 jq less
    # goes into the images
    busybox-static
)

# What rootfs-next.sh has of its own.
suite=$ROOTFS_SUITE expect_versions=$ROOTFS_EXPECT pin=ROOTFS_EXPECT tree=$CACHE/rootfs
suite_options=()

part_inputs() { say "recipe 1 $suite ${packages[*]} / $expect_versions"; }
part_present() { [[ -x $tree/usr/bin/ovs-vsctl && -x $tree/usr/bin/etcd ]]; }

# mirror: the one that this machine's own packages come from, so that local mirrors and proxies just work.
# shellcheck disable=SC2016  # the format is for apt-get
mirror() {
    say "${CAUSEWAY_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(LABEL)' 'Created-By: Packages' |
        awk '$2 == "main" && $3 == "Debian" { print $1; exit }')}"
}

# check_versions TREE: the suite still carries the versions that the project was tested with.
check_versions() {
    local have wanted package prefix version bad=0
    have=$(dpkg-query --admindir="$1/var/lib/dpkg" -W -f '${Package} ${Version}\n')
    for wanted in $expect_versions; do
        package=${wanted%%=*} prefix=${wanted#*=}
        version=$(awk -v p="$package" '$1 == p { sub(/^[0-9]+:/, "", $2); print $2 }' <<<"$have")
        say "$package $version"
        case $version in
        "$prefix" | "$prefix"[.+~-]*) ;;
        *) say "error: $package is '$version' in $suite, expected $prefix: adapt $pin in versions.env once the tests pass with it" && bad=1 ;;
        esac
    done
    return "$bad"
}

part_build() { make_tree; }

make_tree() {
    local downloads made=$TMP/tree
    # Archives are kept beside the tree until it is complete: an interrupted download goes on where it was.
    # The bind mount lives in this build's own mount namespace only.
    downloads=$(work_dir "$part-archives")
    mkdir -p "$downloads/partial"
    step "downloading and unpacking Debian $suite"
    # shellcheck disable=SC2016  # $1 belongs to the hooks
    mmdebstrap --mode=root --variant=minbase --architectures=amd64 --format=directory \
        --include="$(IFS=, && say "${packages[*]}")" \
        --skip=download/empty,essential/unlink,cleanup/apt \
        --aptopt='Acquire::Retries "3"' "${suite_options[@]}" \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --setup-hook='mkdir -p "$1/var/cache/apt/archives"' \
        --setup-hook="mount --bind '$downloads' \"\$1/var/cache/apt/archives\"" \
        --customize-hook='umount "$1/var/cache/apt/archives"' \
        --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin' \
        --customize-hook='cd "$1/etc" && rm -f hostname resolv.conf && install -m 644 /dev/null hostname && install -m 644 /dev/null resolv.conf' \
        "$suite" "$made" "$(mirror)"
    step "checking versions"
    check_versions "$made"
    place "$made" "$tree"
    rm -rf "$downloads"
}
