# shellcheck shell=bash disable=SC2034
# The control plane: API server, controller manager, kubectl.

part_needs="go"
part_disk_mb=4000

programs=(kube-apiserver kube-controller-manager kubectl)

part_inputs() { kube_inputs "${programs[@]}"; }
part_present() { kube_present "${programs[@]}"; }
part_build() { kube_build "${programs[@]}"; }
