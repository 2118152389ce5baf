//! The namespaces of a node and the root file system in them.

use std::fs::OpenOptions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, ensure};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod, umask};
use nix::unistd::pivot_root;

use crate::holder::{Holder, Starting};
use crate::ns::Namespaces;
use crate::settings::{Settings, built_programs};

/// Where the machine's root stays until the node is up.
const OLD_ROOT: &str = ".old";

/// `$1` is the node's cgroup on the machine, `$2` its name, `$3` what needs to be in the new cgroup and pid namespaces.
const OUTSIDE: &str = r#"
set -e
echo 0 > "$1/cgroup.procs"
exec unshare --cgroup --pid --fork --kill-child bash -c "$3" init "$2"
"#;

/// Process 1; `$1` is the node's name. The kubelet writes six sysctls of the whole machine: it is shown files that hold the wanted values.
const INIT: &str = r#"
set -e
mount -t proc proc /proc
echo "$1" > /proc/sys/kernel/hostname
mkdir /run/sysctl
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    key=${setting%=*}
    echo ${setting#*=} > /run/sysctl/${key//\//.}
    mount --bind /run/sysctl/${key//\//.} /proc/sys/$key
done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
umount -l /.old
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
mount --make-rshared /
echo up
read -r _
"#;

/// Device files of a node: name, type numbers.
const DEVICES: [(&str, u64, u64); 8] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("kmsg", 1, 11),
    ("tty", 5, 0),
    ("net/tun", 10, 200),
];

/// The namespaces that are a node's own.
pub(super) fn kinds() -> CloneFlags {
    CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWCGROUP
}

/// What the root of one node is made from.
#[derive(Debug)]
pub(super) struct Root {
    tree: PathBuf,
    folder: PathBuf,
    cgroup: PathBuf,
    hostname: String,
    /// Folders of the machine shown inside: from, to, whether the node may write.
    shown: Vec<(PathBuf, PathBuf, bool)>,
}

impl Root {
    pub(super) fn new(settings: &Settings, folder: &Path, cgroup: &Path, name: &str) -> anyhow::Result<Self> {
        let mut shown = vec![(built_programs()?, "causeway/bin".into(), false)];
        for (from, to) in [
            (settings.kube(), "causeway/kube"),
            (settings.tools(), "causeway/tools"),
            (settings.images(), "causeway/images"),
            (settings.uml().parent().unwrap_or(&settings.cache).to_owned(), "causeway/uml"),
        ] {
            if from.exists() {
                shown.push((from, to.into(), false));
            }
        }
        // Real folders below the overlay: containers unpack into overlays of their own, which cannot lie on one.
        shown.push((folder.join("containerd"), "var/lib/containerd".into(), true));
        shown.push((folder.join("kubelet"), "var/lib/kubelet".into(), true));
        let (folder, cgroup, hostname) = (folder.to_owned(), cgroup.to_owned(), name.to_owned());
        Ok(Self { tree: settings.rootfs(), folder, cgroup, hostname, shown })
    }

    /// More folders, read-only.
    pub(super) fn show(mut self, folders: Vec<(PathBuf, PathBuf)>) -> Self {
        let inside = |path: PathBuf| path.strip_prefix("/").map(Path::to_owned).unwrap_or(path);
        self.shown.extend(folders.into_iter().map(|(from, to)| (from, inside(to), false)));
        self
    }

    /// Makes the namespaces and starts process 1. Blocks.
    pub(super) fn start(self, outer: &Namespaces, log: &Path) -> anyhow::Result<Holder> {
        // On a thread of its own, which is lost to everybody else afterwards.
        let thread = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("node".to_owned());
            let started = thread.spawn_scoped(scope, || self.start_here(outer, log)).context("a thread")?;
            started.join().map_err(|_| anyhow!("the thread that makes a node panicked"))?
        });
        thread?.find_init()
    }

    fn start_here(&self, outer: &Namespaces, log: &Path) -> anyhow::Result<Starting> {
        // The log is opened by its path on the machine, so before the root changes.
        let log = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(log);
        let log = log.context("making the log")?;
        outer.enter()?;
        let own = CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC;
        unshare(own).context("making namespaces")?;
        // This thread's own since it left the shared working directory.
        umask(Mode::empty());
        self.make_root().context("making the root file system")?;
        let cgroup =
            Path::new("/").join(OLD_ROOT).join(self.cgroup.strip_prefix("/").unwrap_or(&self.cgroup));
        let mut command = Command::new("/bin/bash");
        command.args(["-c", OUTSIDE, "node"]).arg(cgroup).arg(&self.hostname).arg(INIT);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/").process_group(0);
        Holder::start(command, log)
    }

    fn make_root(&self) -> anyhow::Result<()> {
        remount("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
        let (upper, work, root) =
            (self.folder.join("upper"), self.folder.join("work"), self.folder.join("root"));
        for folder in [&upper, &work, &root, &self.folder.join("containerd"), &self.folder.join("kubelet")] {
            make_folder(folder)?;
        }
        let layers = [&self.tree, &upper, &work].map(|path| path.display().to_string());
        let [lower, upper, work] = &layers;
        ensure!(
            !layers.iter().any(|path| path.contains([',', ':'])),
            "a path with a comma or colon: {layers:?}"
        );
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        mount(Some("overlay"), &root, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
            .context("mounting the overlay")?;
        for folder in ["proc", "sys", "dev", "run", "tmp", OLD_ROOT] {
            make_folder(&root.join(folder))?;
        }
        special(&root, "sysfs", "sys", "")?;
        special(&root, "tmpfs", "run", "mode=755")?;
        special(&root, "tmpfs", "tmp", "mode=1777")?;
        make_devices(&root)?;
        for (from, to, writable) in &self.shown {
            show(from, &root.join(to), *writable)?;
        }
        std::env::set_current_dir(&root).context("entering the new root")?;
        pivot_root(".", OLD_ROOT).context("changing the root")?;
        std::env::set_current_dir("/").context("entering the new root")
    }
}

fn make_devices(root: &Path) -> anyhow::Result<()> {
    special(root, "tmpfs", "dev", "mode=755")?;
    let dev = root.join("dev");
    for folder in ["pts", "shm", "mqueue", "net"] {
        make_folder(&dev.join(folder))?;
    }
    for (name, major, minor) in DEVICES {
        let mode = Mode::from_bits_truncate(0o666);
        mknod(&dev.join(name), SFlag::S_IFCHR, mode, makedev(major, minor))
            .with_context(|| format!("making /dev/{name}"))?;
    }
    special(root, "devpts", "dev/pts", "newinstance,ptmxmode=0666,mode=0620,gid=5")?;
    special(root, "tmpfs", "dev/shm", "mode=1777")?;
    special(root, "mqueue", "dev/mqueue", "")?;
    let links = [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ];
    for (target, name) in links {
        symlink(target, dev.join(name)).with_context(|| format!("linking /dev/{name}"))?;
    }
    Ok(())
}

fn special(root: &Path, kind: &str, to: &str, options: &str) -> anyhow::Result<()> {
    mount(Some(kind), &root.join(to), Some(kind), MsFlags::empty(), Some(options))
        .with_context(|| format!("mounting {kind} on /{to}"))
}

fn show(from: &Path, to: &Path, writable: bool) -> anyhow::Result<()> {
    make_folder(to)?;
    let what = || format!("showing {} at {}", from.display(), to.display());
    let nothing = None::<&str>;
    mount(Some(from), to, nothing, MsFlags::MS_BIND, nothing).with_context(what)?;
    if !writable {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(nothing, to, nothing, flags, nothing).with_context(what)?;
    }
    Ok(())
}

fn remount(path: &str, flags: MsFlags) -> anyhow::Result<()> {
    let nothing = None::<&str>;
    mount(nothing, path, nothing, flags, nothing).with_context(|| format!("changing the mount of {path}"))
}

fn make_folder(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755))
        .with_context(|| format!("opening {} to all", path.display()))
}
