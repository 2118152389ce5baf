//! A node: namespaces of its own over a Debian tree of its own, linked to the rig's bridge.

mod kubelet;
mod object;
mod root;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail, ensure};

use crate::cgroup;
use crate::control_plane::inside_url;
use crate::ground::{API_V4, API_V6};
use crate::holder::Holder;
use crate::inside::{Inside, Place};
use crate::node::root::Root;
use crate::ns::Namespaces;
use crate::ovn::OvnZone;
use crate::ovs::Ovs;
use crate::process::{Process, Program, lock};
use crate::rig::Shared;

pub use kubelet::KUBELET_CGROUP;
pub(crate) use object::MANAGER;
pub use object::UplinkAnnotations;

/// Where the programs that cargo built are inside a node.
pub const PROGRAMS: &str = "/causeway/bin";
/// The kubeconfig with all rights inside a node; `KUBECONFIG` names it for every program.
pub const KUBECONFIG: &str = "/etc/causeway/kubeconfig";

/// Who makes the Node object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    /// The rig, through the API; the node runs no kubelet.
    Rig,
    /// A real kubelet.
    Kubelet,
    /// Nobody: the card of a pair is no node of the host's cluster.
    Nobody,
}

/// Address families of a node's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Families {
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
    /// Both, IPv4 first.
    #[default]
    Both,
}

/// What a node will be.
#[derive(Debug)]
pub struct NodeBuilder {
    shared: Arc<Shared>,
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    registration: Registration,
    shown: Vec<(PathBuf, PathBuf)>,
    pods: Families,
}

impl NodeBuilder {
    pub(crate) fn new(shared: Arc<Shared>, name: String) -> Self {
        let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
        let (registration, pods) = (Registration::Rig, Families::default());
        Self { shared, name, labels, annotations, registration, shown: Vec::new(), pods }
    }

    /// A label of the Node object.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// An annotation of the Node object.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// The annotations that discovery of Uplinks needs and that the default network would have written.
    #[must_use]
    pub fn uplink_annotations(mut self, annotations: &UplinkAnnotations) -> Self {
        self.annotations.extend(annotations.render(&self.name));
        self
    }

    /// With containerd and a kubelet, which registers the node and runs pods.
    #[must_use]
    pub fn kubelet(mut self) -> Self {
        self.registration = Registration::Kubelet;
        self
    }

    /// Which addresses pods get; without a kubelet there are none.
    #[must_use]
    pub fn pods(mut self, families: Families) -> Self {
        self.pods = families;
        self
    }

    /// No Node object at all.
    #[must_use]
    pub fn unregistered(mut self) -> Self {
        self.registration = Registration::Nobody;
        self
    }

    /// A folder of the machine that the node sees at path `to`, read-only.
    #[must_use]
    pub fn show(mut self, folder: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        self.shown.push((folder.into(), to.into()));
        self
    }

    /// Starts it; with a kubelet, waits until the node is Ready.
    ///
    /// # Errors
    /// If a part does not come up.
    pub async fn start(self) -> anyhow::Result<Node> {
        // Boxed: the future is large, and tests start several nodes side by side.
        Box::pin(self.start_unboxed()).await
    }

    async fn start_unboxed(self) -> anyhow::Result<Node> {
        let name = self.name.clone();
        let what = || format!("starting node {name}");
        let mut node = Node::bring_up(self.shared, self.name, self.shown).await.with_context(what)?;
        node.pods = self.pods;
        match self.registration {
            Registration::Nobody => {}
            Registration::Rig => node.register(self.labels, self.annotations).await.with_context(what)?,
            Registration::Kubelet => {
                node.start_kubelet().await.with_context(what)?;
                node.describe(self.labels, self.annotations).await.with_context(what)?;
            }
        }
        Ok(node)
    }
}

/// A running node. Dropping it ends everything in it; its Node object stays, as with a machine that lost its power.
#[derive(Debug)]
pub struct Node {
    name: String,
    number: u32,
    pub(crate) shared: Arc<Shared>,
    pub(crate) inside: Inside,
    init: u32,
    cgroup: PathBuf,
    services: Vec<Process>,
    pods: Families,
    holder: Mutex<Holder>,
}

impl Node {
    async fn bring_up(
        shared: Arc<Shared>,
        name: String,
        shown: Vec<(PathBuf, PathBuf)>,
    ) -> anyhow::Result<Self> {
        let number = shared.next_number();
        // The last byte of its addresses: 10 + number.
        ensure!(number <= 240, "a rig has room for 240 nodes");
        let ground = &shared.ground;
        let folder = ground.folder.path().join("nodes").join(&name);
        ensure!(!folder.exists(), "this rig has, or had, a node called {name}");
        let log_dir = folder.join("log");
        std::fs::create_dir_all(&log_dir).with_context(|| format!("making {}", log_dir.display()))?;
        let cgroup = ground.cgroup.child(&format!("node-{name}"))?;
        let root = Root::new(&ground.settings, &folder, &cgroup, &name)?.show(shown);
        let log = log_dir.join("init.log");
        ground.logs.add(format!("{name}: init"), log.clone());
        let outer = Arc::clone(&ground.namespaces);
        let holder =
            tokio::task::spawn_blocking(move || root.start(&outer, &log)).await.context("a thread")??;
        let init = holder.init();
        let inside = Inside::new(Place {
            name: name.clone(),
            namespaces: Arc::new(Namespaces::of(init, root::kinds())?),
            env: environment(&name),
            log_dir,
            logs: Arc::clone(&ground.logs),
            cgroups: PathBuf::from("/sys/fs/cgroup"),
        });
        let holder = Mutex::new(holder);
        let (services, pods) = (Vec::new(), Families::default());
        let node = Self { name, number, shared, inside, init, cgroup, services, pods, holder };
        node.link_up().await.context("linking it to the rig")?;
        node.write_files()?;
        Ok(node)
    }

    /// Its name, also in the Node object.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on `eth0`.
    #[must_use]
    pub fn v4(&self) -> Ipv4Addr {
        let [a, b, c, d] = API_V4.octets();
        Ipv4Addr::new(a, b, c, d + 9 + u8::try_from(self.number).unwrap_or(u8::MAX))
    }

    /// Its IPv6 address on `eth0`.
    #[must_use]
    pub fn v6(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(API_V6.to_bits() + 9 + u128::from(self.number))
    }

    /// A path inside the node as the test process can open it. The path must not lead through absolute symbolic links
    /// (`/var/run` is one): those would be followed outside.
    #[must_use]
    pub fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        let inside = inside.as_ref();
        Path::new(&format!("/proc/{}/root", self.init)).join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// Writes a file inside the node, with its folders.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, inside: impl AsRef<Path>, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let path = self.path(inside);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))
    }

    /// Runs a command in the node to its end and returns what it printed.
    ///
    /// # Errors
    /// If it fails; what it printed is in the text.
    pub async fn exec<A: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = A>) -> anyhow::Result<String> {
        self.inside.exec(argv).await
    }

    /// Like [`Self::exec`] with something to read on standard input.
    ///
    /// # Errors
    /// As [`Self::exec`].
    pub async fn exec_with_input<A: AsRef<OsStr>>(
        &self,
        argv: impl IntoIterator<Item = A>,
        input: impl Into<Vec<u8>>,
    ) -> anyhow::Result<String> {
        self.inside.exec_with_input(argv, input.into()).await
    }

    /// Runs a command in the node, whatever its exit status.
    ///
    /// # Errors
    /// If it cannot be started or does not end.
    pub async fn output<A: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = A>) -> anyhow::Result<Output> {
        self.inside.output(argv.into_iter().map(|word| word.as_ref().to_owned()).collect(), Vec::new()).await
    }

    /// `ip` in the node.
    ///
    /// # Errors
    /// As [`Self::exec`].
    pub async fn ip<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<String> {
        let mut argv: Vec<OsString> = vec!["ip".into()];
        argv.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self.exec(argv).await
    }

    /// Several `ip` commands, one a line, in one process.
    ///
    /// # Errors
    /// At the first that fails.
    pub async fn ip_batch(&self, commands: &str) -> anyhow::Result<()> {
        self.exec_with_input(["ip", "-batch", "-"], commands).await.map(drop)
    }

    /// Starts a program that runs beside the test, as a service of the node would.
    ///
    /// # Errors
    /// If it cannot be started, or is one of [`PROGRAMS`] and was not built.
    pub async fn spawn(&self, program: Program) -> anyhow::Result<Process> {
        let path = program.argv.first().map_or(Path::new(""), Path::new);
        if let Ok(name) = path.strip_prefix(PROGRAMS)
            && !self.path(path).exists()
        {
            let folder = crate::settings::built_programs()?;
            bail!("{} is not there: build it first (cargo build)", folder.join(name).display());
        }
        self.inside.spawn(program).await
    }

    /// Starts a program that cargo built, by its file name, from [`PROGRAMS`].
    ///
    /// # Errors
    /// If it was not built or cannot be started.
    pub async fn spawn_built<A: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Process> {
        self.spawn(Program::built(name).args(arguments)).await
    }

    /// A port that leads out of the rig's nodes: a veth whose other end is on the fabric bridge of the rig, where
    /// [`FABRIC_V4`](crate::FABRIC_V4) answers. It is up and has no address.
    ///
    /// # Errors
    /// If the name is taken.
    pub async fn physical_port(&self, name: &str) -> anyhow::Result<()> {
        let (init, outside) = (self.init, format!("f{}", self.shared.next_number()));
        let links = format!(
            "link add name {outside} type veth peer name {name} netns {init}\n\
             link set {outside} master fab0 up\n"
        );
        self.shared.ground.network.exec_with_input(["ip", "-batch", "-"], links.into()).await?;
        self.ip(["link", "set", name, "up"]).await.map(drop)
    }

    /// Starts Open vSwitch in the node (userspace datapath), at the standard paths.
    ///
    /// # Errors
    /// If it does not come up.
    pub async fn ovs(&self) -> anyhow::Result<Ovs> {
        Ovs::start(self).await
    }

    /// Starts an OVN zone in the node: both databases, northd and, over `ovs`, ovn-controller.
    ///
    /// # Errors
    /// If it does not come up.
    pub async fn ovn_zone(&self, ovs: &Ovs) -> anyhow::Result<OvnZone> {
        OvnZone::start(self, ovs).await
    }

    /// Process 1 of the node, as the machine numbers it.
    #[must_use]
    pub fn init(&self) -> u32 {
        self.init
    }

    /// Processes that belong to the node itself: containerd and kubelet.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Process> {
        self.services.iter().find(|process| process.name() == name)
    }

    async fn link_up(&self) -> anyhow::Result<()> {
        let (init, outside) = (self.init, format!("n{}", self.number));
        let links = format!(
            "link add name {outside} type veth peer name eth0 netns {init}\n\
             link set {outside} master br0 up\n"
        );
        self.shared.ground.network.exec_with_input(["ip", "-batch", "-"], links.into()).await?;
        let (v4, v6) = (self.v4(), self.v6());
        let inner = format!(
            "link set lo up\nlink set eth0 up\naddr add {v4}/24 dev eth0\naddr add {v6}/64 dev eth0 nodad\n\
             route add default via {API_V4}\nroute add default via {API_V6}\n"
        );
        self.ip_batch(&inner).await
    }

    fn write_files(&self) -> anyhow::Result<()> {
        self.write("/etc/hostname", format!("{}\n", self.name))?;
        self.write(
            "/etc/hosts",
            format!("127.0.0.1 localhost\n::1 localhost\n{} {}\n", self.v4(), self.name),
        )?;
        // No name server is reachable; an empty file makes look-ups fail at once instead of after a timeout.
        self.write("/etc/resolv.conf", "")?;
        self.write(KUBECONFIG, self.shared.control.admin_kubeconfig(&inside_url())?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut holder = lock(&self.holder);
        holder.release();
        if let Err(error) = cgroup::remove(&self.cgroup) {
            tracing::warn!(node = self.name, error = format!("{error:#}"), "Node left something behind");
        }
        holder.wait();
    }
}

fn environment(node: &str) -> Vec<(OsString, OsString)> {
    let path = "/causeway/bin:/causeway/kube:/causeway/tools:/usr/sbin:/usr/bin:/sbin:/bin";
    let words = [
        ("PATH", path),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("KUBECONFIG", KUBECONFIG),
        ("NODE_NAME", node),
    ];
    words.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}
