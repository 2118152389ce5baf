use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A cgroup tree and a process file system made of plain files.
struct Machine {
    folder: TempDir,
    places: Places,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            cgroups: folder.path().join("cgroup"),
            processes: folder.path().join("proc"),
            unified: |_| Ok(true),
        };
        fs::create_dir_all(&places.cgroups).unwrap();
        fs::create_dir_all(&places.processes).unwrap();
        Self { folder, places }
    }

    fn cgroups(self, paths: &[&str]) -> Self {
        for path in paths {
            fs::create_dir_all(self.places.cgroups.join(path)).unwrap();
        }
        self
    }

    /// A process of that name that says it is in `cgroup`, and that the tree has there.
    fn process(self, pid: u32, name: &str, cgroup: &str) -> Self {
        let machine = self.lone_process(pid, name, cgroup, "Uid:\t0\t0\t0\t0\nNSpid:\t1\n");
        let members = machine.places.cgroups.join(cgroup.trim_start_matches('/')).join("cgroup.procs");
        fs::write(members, format!("1\n{pid}\n")).unwrap();
        machine
    }

    fn lone_process(self, pid: u32, name: &str, cgroup: &str, status: &str) -> Self {
        let folder = self.places.processes.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("comm", format!("{name}\n")),
            ("status", status.to_owned()),
            ("cgroup", format!("0::{cgroup}\n")),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        self
    }

    fn find(&self, configured: Option<&str>) -> Result<(String, Source), String> {
        let configured = configured.map(|path| path.parse().unwrap());
        let found = find(&self.places, configured.as_ref(), None);
        let root = self.folder.path().display().to_string();
        found
            .map(|found| (found.path.to_string(), found.source))
            .map_err(|error| error.to_string().replace(&root, "/sys/fs"))
    }

    #[track_caller]
    fn check(&self, want: &str, source: Source) {
        assert_eq!(self.find(None), Ok((want.to_owned(), source)));
    }
}

#[test]
fn a_node_without_version_2_and_a_tree_that_cannot_be_read_are_told_apart() {
    let mut machine = Machine::new().cgroups(&["kubelet.slice/kubelet.service"]);
    machine.places.unified = |_| Ok(false);
    assert_eq!(machine.find(None), Err("the node uses cgroup v1".to_owned()));
    assert_eq!(machine.find(Some("kubelet.slice")), Err("the node uses cgroup v1".to_owned()));
    machine.places.unified = |_| Err(io::ErrorKind::PermissionDenied.into());
    assert_eq!(
        machine.find(None),
        Err("the cgroup tree at /sys/fs/cgroup cannot be read: permission denied".to_owned())
    );
    // What the kernel says about a folder that is no cgroup tree, and about one that is not there.
    assert!(!is_unified(machine.folder.path()).unwrap());
    assert!(!is_unified(&machine.folder.path().join("absent")).unwrap());
}

#[test]
fn a_configured_path_is_used_whatever_else_there_is() {
    let machine = Machine::new().cgroups(&["podruntime/kubelet", "kubelet.slice/kubelet.service"]).process(
        7,
        "kubelet",
        "/kubelet.slice/kubelet.service",
    );
    assert_eq!(
        machine.find(Some("podruntime/kubelet")),
        Ok(("podruntime/kubelet".to_owned(), Source::Configured))
    );
}

#[test]
fn a_configured_path_that_is_wrong_has_no_substitute() {
    let machine = Machine::new().cgroups(&["kubelet.slice/kubelet.service"]);
    fs::write(machine.places.cgroups.join("kubelet.slice/cgroup.procs"), "").unwrap();
    for (path, want) in [
        (
            "podruntime/kubelet",
            "configured kubelet cgroup path \"podruntime/kubelet\" is not present under /sys/fs/cgroup: No such file or directory (os error 2)",
        ),
        (
            "kubelet.slice/cgroup.procs",
            "configured kubelet cgroup path \"kubelet.slice/cgroup.procs\" under /sys/fs/cgroup is not a cgroup directory",
        ),
    ] {
        assert_eq!(machine.find(Some(path)), Err(want.to_owned()));
    }
}

#[test]
fn a_running_kubelet_is_found_whatever_its_unit_is_called() {
    for (name, cgroup) in [
        ("kubelet", "/podruntime/kubelet"),
        ("kubelet", "/system.slice/rke2-agent.service"),
        ("k3s-server", "/system.slice/k3s.service"),
        ("k3s-agent", "/system.slice/k3s-agent.service"),
        ("kubelite", "/system.slice/snap.microk8s.daemon-kubelite.service"),
    ] {
        let path = cgroup.trim_start_matches('/');
        let machine = Machine::new().cgroups(&[path, "a.slice/kubelet.service"]).process(7, name, cgroup);
        machine.check(path, Source::Process);
    }
}

#[test]
fn a_process_that_only_calls_itself_kubelet_is_not_believed() {
    let service = "kubelet.slice/kubelet.service";
    let roots = "Uid:\t0\t0\t0\t0\nNSpid:\t9\n";
    for (why, cgroup, status, listed) in [
        ("another user's", "/user.slice/kubelet.service", "Uid:\t1000\t1000\t1000\t1000\nNSpid:\t9\n", true),
        ("of a container", "/other.slice/kubelet.service", "Uid:\t0\t0\t0\t0\nNSpid:\t9\t1\n", true),
        ("in a pod's cgroup", "/kubepods.slice/kubepods-pod1.slice/kubelet.service", roots, true),
        ("in a pod's cgroup by cgroupfs", "/kubepods/burstable/pod1/kubelet.service", roots, true),
        ("not in the tree", "/absent.slice/kubelet.service", roots, false),
        ("elsewhere in the tree", "/other.slice/kubelet.service", roots, false),
        ("outside of the namespace", "/../kubelet.service", roots, false),
        ("in the root", "/", roots, false),
    ] {
        let path = cgroup.trim_start_matches('/');
        let mut machine = Machine::new().cgroups(&[service]);
        if listed {
            machine = machine.cgroups(&[path]).process(9, "kubelet", cgroup);
        } else if path.starts_with("other") {
            machine = machine.cgroups(&[path]);
        }
        let machine = machine.lone_process(9, "kubelet", cgroup, status);
        assert_eq!(machine.find(None), Ok((service.to_owned(), Source::Search)), "{why}");
    }
}

#[test]
fn of_several_kubelets_a_service_comes_before_what_was_started_by_hand() {
    let machine = Machine::new()
        .cgroups(&["user.slice/session-1.scope", "system.slice/kubelet.service", "system.slice/z.service"])
        .process(3, "kubelet", "/user.slice/session-1.scope")
        .process(40, "kubelet", "/system.slice/kubelet.service")
        .process(50, "kubelet", "/system.slice/z.service");
    machine.check("system.slice/kubelet.service", Source::Process);
}

#[test]
fn without_a_process_the_first_directory_of_the_name_counts_and_none_of_a_pod() {
    for (cgroups, want) in [
        (&["kubelet.slice/kubelet.service"][..], "kubelet.slice/kubelet.service"),
        (&["system.slice/kubelet.service", "user.slice"], "system.slice/kubelet.service"),
        (&["kubelet.service/kubelet.service"], "kubelet.service"),
        (&["runtime.slice/kubelet.slice/kubelet.service"], "runtime.slice/kubelet.slice/kubelet.service"),
        // Lexical, each before what is in it: kind in kind.
        (&["b.slice/kubelet.service", "a.slice/b.slice/kubelet.service"], "a.slice/b.slice/kubelet.service"),
        (
            &["kubepods.slice/kubepods-pod1.slice/kubelet.service", "system.slice/kubelet.service"],
            "system.slice/kubelet.service",
        ),
    ] {
        Machine::new().cgroups(cgroups).check(want, Source::Search);
    }
}

#[test]
fn nothing_found_is_said_with_the_place_that_was_searched() {
    let machine = Machine::new().cgroups(&["system.slice/other.service", "kubepods.slice/kubelet.service"]);
    // A file of the name, and a link to a directory of it, are none.
    fs::write(machine.places.cgroups.join("system.slice/kubelet.service"), "").unwrap();
    symlink(machine.places.cgroups.join("system.slice"), machine.places.cgroups.join("kubelet.service"))
        .unwrap();
    assert_eq!(
        machine.find(None),
        Err("no \"kubelet.service\" directory found under /sys/fs/cgroup".to_owned())
    );
    fs::remove_dir_all(&machine.places.cgroups).unwrap();
    assert_eq!(
        machine.find(None),
        Err("failed to walk /sys/fs/cgroup: No such file or directory (os error 2)".to_owned())
    );
}

#[test]
fn what_is_in_use_stays_while_the_kubelet_is_away_unless_it_was_made_again() {
    let machine = Machine::new().cgroups(&["podruntime/kubelet", "a.slice/kubelet.service"]).process(
        7,
        "kubelet",
        "/podruntime/kubelet",
    );
    let held = find(&machine.places, None, None).unwrap();
    fs::remove_dir_all(machine.places.processes.join("7")).unwrap();
    let kept = find(&machine.places, None, Some(&held)).unwrap();
    assert_eq!(kept, Found { source: Source::Kept, ..held.clone() });
    let other = Found { id: held.id + 1, ..held };
    assert_eq!(find(&machine.places, None, Some(&other)).unwrap().path.as_str(), "a.slice/kubelet.service");
}

#[test]
fn a_tree_of_another_cgroup_namespace_is_refused() {
    let machine = Machine::new().cgroups(&["kubelet.slice/kubelet.service"]);
    let mount = |from: &str, kind: &str| {
        let at = machine.places.cgroups.display();
        format!("30 23 0:26 {from} {at} rw,nosuid shared:9 - {kind} cgroup2 rw,nsdelegate\n")
    };
    let folder = machine.places.processes.join("self");
    fs::create_dir_all(&folder).unwrap();
    for (mounts, refused) in [
        (mount("/", "cgroup2"), false),
        (mount("/../../..", "cgroup2"), true),
        // The last one lies on top.
        (mount("/../..", "cgroup2") + &mount("/", "cgroup2"), false),
        (mount("/", "cgroup2") + &mount("/../..", "cgroup2"), true),
        (mount("/../..", "tmpfs"), false),
        ("nonsense\n\n".to_owned(), false),
    ] {
        fs::write(folder.join("mountinfo"), &mounts).unwrap();
        let found = find(&machine.places, None, None);
        assert_eq!(matches!(found, Err(NotFound::OtherNamespace { .. })), refused, "{mounts}");
    }
}
