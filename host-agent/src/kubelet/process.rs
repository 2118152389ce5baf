//! The running kubelet, and the cgroup that it is in.
//!
//! A name alone proves nothing: anybody can call a process `kubelet`. So it has to be root's, in the node's own pid
//! namespace (which no container without `hostPID` is), outside of the pods' cgroups, and in the cgroup that the tree of
//! this namespace lists it in.

use std::fs;
use std::path::Path;

use causeway_runtime::settings::CgroupPath;
use tracing::warn;

use super::find::Places;

/// What processes that are, or hold, a kubelet are called: Kubernetes' own, and those of k3s and MicroK8s.
const NAMES: [&str; 4] = ["kubelet", "k3s-server", "k3s-agent", "kubelite"];

/// The cgroup of the kubelet that runs. `exists` tells the number of a cgroup that may be used.
pub(super) fn kubelet(places: &Places, exists: impl Fn(&CgroupPath) -> Option<u64>) -> Option<CgroupPath> {
    let mut found: Vec<(u32, CgroupPath)> = processes(&places.processes)
        .into_iter()
        .filter_map(|pid| Some((pid, cgroup_of(&places.processes.join(pid.to_string()))?)))
        .filter(|(pid, path)| exists(path).is_some() && lists(&places.cgroups, path, *pid))
        .collect();
    // A unit before what somebody started by hand, then the oldest: the answer must not change from look to look.
    found.sort_by_key(|(pid, path)| (!is_service(path), *pid));
    let mut paths = found.into_iter().map(|(_, path)| path);
    let first = paths.next()?;
    if let Some(other) = paths.find(|path| *path != first) {
        warn!(cgroup = %first, %other, "Several kubelets run; the first one counts");
    }
    Some(first)
}

fn is_service(path: &CgroupPath) -> bool {
    Path::new(path.leaf()).extension().is_some_and(|extension| extension == "service")
}

/// Processes with one of the names, in order.
fn processes(proc: &Path) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let name = fs::read_to_string(proc.join(pid.to_string()).join("comm"));
            name.is_ok_and(|name| NAMES.contains(&name.trim_end()))
        })
        .collect();
    pids.sort_unstable();
    pids
}

/// The cgroup of a process that may be believed. A process that ends meanwhile has none.
fn cgroup_of(process: &Path) -> Option<CgroupPath> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    if !is_roots_own(&status) {
        return None;
    }
    in_tree(&fs::read_to_string(process.join("cgroup")).ok()?)
}

/// Whether the process is root's and in the pid namespace of the process file system: there it has one number, one in
/// each namespace below otherwise. Source: `proc_pid_status(5)`.
fn is_roots_own(status: &str) -> bool {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|values| values.split_ascii_whitespace())
    };
    let effective = field("Uid").and_then(|mut ids| ids.nth(1));
    // Kernels before 4.1 do not tell; those have no cgroup v2 either.
    let numbers = field("NSpid").map(Iterator::count);
    effective == Some("0") && numbers == Some(1)
}

/// The path in the tree of version 2, if it lies in this process's cgroup namespace and still exists.
/// Source: cgroups(7), `/proc/pid/cgroup`; `Documentation/admin-guide/cgroup-v2.rst`, "Namespace".
fn in_tree(cgroup: &str) -> Option<CgroupPath> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    // The parser refuses what lies outside of the namespace, which begins with `/..`, and the root.
    if path.ends_with(" (deleted)") { None } else { path.parse().ok() }
}

/// Whether the tree has the process where it says it is.
fn lists(root: &Path, path: &CgroupPath, pid: u32) -> bool {
    let members = fs::read_to_string(root.join(path.as_str()).join("cgroup.procs"));
    members.is_ok_and(|members| members.lines().any(|line| line.parse() == Ok(pid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_that_is_roots_and_in_the_nodes_own_pid_namespace() {
        for (status, want) in [
            ("Name:\tkubelet\nUid:\t0\t0\t0\t0\nNSpid:\t7\n", true),
            // Started by another user and set to root's rights, as a service may be.
            ("Name:\tkubelet\nUid:\t1000\t0\t0\t0\nNSpid:\t7\n", true),
            ("Name:\tkubelet\nUid:\t0\t1000\t0\t0\nNSpid:\t7\n", false),
            ("Name:\tkubelet\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t7\n", false),
            // Of a container.
            ("Name:\tkubelet\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\n", false),
            ("Name:\tkubelet\nUid:\t0\t0\t0\t0\n", false),
            ("", false),
        ] {
            assert_eq!(is_roots_own(status), want, "{status:?}");
        }
    }

    #[test]
    fn a_path_counts_that_lies_in_the_namespace_and_exists() {
        for (text, want) in [
            ("0::/kubelet.slice/kubelet.service\n", Some("kubelet.slice/kubelet.service")),
            ("0::/podruntime/kubelet\n", Some("podruntime/kubelet")),
            (
                "12:cpu:/a\n1:name=systemd:/b\n0::/system.slice/k3s.service\n",
                Some("system.slice/k3s.service"),
            ),
            ("0::/../other/kubelet.service\n", None),
            ("0::/kubelet.service (deleted)\n", None),
            ("0::/\n", None),
            ("12:cpu:/a\n", None),
            ("", None),
        ] {
            assert_eq!(in_tree(text).as_ref().map(CgroupPath::as_str), want, "{text:?}");
        }
    }
}
