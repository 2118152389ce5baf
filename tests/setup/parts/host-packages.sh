# shellcheck shell=bash disable=SC2034
# Debian packages of the machine: those the rig always uses and those that the missing parts are built with.

part_packages=$HOST_PACKAGES

part_present() {
    # shellcheck disable=SC2086  # lists of words
    [[ -z $(missing_packages $HOST_PACKAGES ${WANTED_PACKAGES:-}) ]]
}

part_build() {
    local missing
    # shellcheck disable=SC2086
    mapfile -t missing < <(missing_packages $HOST_PACKAGES ${WANTED_PACKAGES:-})
    ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
}
