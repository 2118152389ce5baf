# shellcheck shell=bash disable=SC2034
# What nodes with pods add: scheduler and kubelet.

part_needs="go"
part_disk_mb=1500

programs=(kube-scheduler kubelet)

part_inputs() { kube_inputs "${programs[@]}"; }
part_present() { kube_present "${programs[@]}"; }
part_build() { kube_build "${programs[@]}"; }
