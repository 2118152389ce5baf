# shellcheck shell=bash disable=SC2034
# The User Mode Linux kernel of the level `kernel`.

part_packages="build-essential flex bison bc libelf-dev xz-utils"
part_disk_mb=2500

# Comments and the order of the options make no other kernel.
part_inputs() {
    local kind
    say "$UML_SOURCE_PACKAGE $UML_EXPECT recipe 1"
    for kind in on optional off; do options "$kind" | sort -u | sed "s/^/$kind /"; done
}
part_present() { [[ -x $CACHE/uml/linux ]]; }

# options on|off|optional: names of one kind out of kernel.options.
options() { awk -v kind="$1" '/^[^#]/ && $1 == kind { for (i = 2; i <= NF; i++) print $i }' "$SETUP_DIR/uml/kernel.options"; }

fetch_source() {
    apt_update_once
    step "downloading $UML_SOURCE_PACKAGE"
    (cd "$TMP" && apt-get -q -o Acquire::Retries=3 download "$UML_SOURCE_PACKAGE")
    step "unpacking $UML_SOURCE_PACKAGE"
    dpkg-deb -x "$TMP/$UML_SOURCE_PACKAGE"_*.deb "$TMP/deb"
    mkdir "$TMP/source"
    tar -C "$TMP/source" --strip-components=1 -xf "$TMP/deb/usr/src/$UML_SOURCE_PACKAGE.tar.xz"
    mv "$TMP/source" "$1"
}

configure() {
    local name missing=()
    step "configuring"
    make ARCH=um defconfig
    {
        options on | sed 's/.*/CONFIG_&=y/'
        options optional | sed 's/.*/CONFIG_&=y/'
        options off | sed 's/.*/# CONFIG_& is not set/'
    } >>.config
    make ARCH=um olddefconfig
    while read -r name; do
        grep -qx "CONFIG_$name=y" .config || missing+=("$name")
    done < <(options on)
    while read -r name; do
        ! grep -qx "CONFIG_$name=y" .config || missing+=("!$name")
    done < <(options off)
    ((${#missing[@]} == 0)) && return
    say "error: the kernel did not take these options of tests/setup/uml/kernel.options (! means: should be off): ${missing[*]}"
    return 1
}

part_build() {
    local work
    work=$(work_dir "uml-$UML_SOURCE_PACKAGE")
    [[ -d $work/source ]] || fetch_source "$work/source"
    cd "$work/source" || return
    [[ $(make -s kernelversion) == "$UML_EXPECT".* ]] || {
        say "error: $UML_SOURCE_PACKAGE is $(make -s kernelversion), expected $UML_EXPECT"
        return 1
    }
    configure
    step "building the kernel"
    make ARCH=um -j"$(nproc)" linux
    strip -o "$TMP/linux" linux
    "$TMP/linux" --version
    place "$TMP/linux" "$CACHE/uml/linux"
    rm -rf "$CACHE"/work/uml-*
}
